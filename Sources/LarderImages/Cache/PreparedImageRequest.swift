/// A request whose key was worked out, for those that come again and again. It is right as long as the settings are the
/// same.
public struct PreparedImageRequest: Sendable {
    /// The request.
    public let request: ImageRequest
    let key: ImageKey
}

extension ImageCache {
    /// Works out the key of a request. Any thread may ask.
    ///
    /// - Returns: nothing where its URL is none
    public nonisolated func prepare(_ request: ImageRequest) -> PreparedImageRequest? {
        catalog.lookup.place(of: request).map { PreparedImageRequest(request: request, key: $0.key) }
    }

    /// Answers a prepared request as ``hit(_:now:)`` does.
    public nonisolated func hit(_ prepared: PreparedImageRequest, now: Int) -> CachedImage? {
        catalog.hit(prepared.request, prepared.key, now: now)
    }
}
