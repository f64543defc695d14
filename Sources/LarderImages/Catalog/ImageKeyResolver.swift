/// The place of an image in the cache.
struct CacheLocation: Sendable {
    let address: ImageAddress
    /// The text that ``key`` is the hash of: the name of the credential or nothing, a line feed, and the URL, or an origin and
    /// the caller's cache key.
    let keyText: String
    let key: ImageKey
    /// The settings of the origin.
    let origin: ImageOrigin?

    /// The key of the URL itself: the failure of one signature says nothing about another one.
    func exactKey(of url: String) -> ImageKey {
        ImageKey((origin?.credential == nil ? "" : address.origin) + "\n" + url)
    }
}

/// Computes the keys of requests, by the settings of origins.
struct ImageKeyResolver: Sendable {
    private let origins: [String: ImageOrigin]

    init(_ origins: [ImageOrigin]) {
        self.origins = Dictionary(origins.map { ($0.name, $0) }) { _, last in last }
    }

    /// The settings of a URL's origin.
    func origin(of url: String) -> ImageOrigin? {
        guard !origins.isEmpty, let address = ImageAddress(url) else { return nil }
        return origins[address.origin]
    }

    /// The origin of a credential; nil if the credential is no longer in the settings.
    func origin(ofCredential name: String) -> ImageOrigin? { origins[name].flatMap { $0.credential == nil ? nil : $0 } }

    /// Whether the image of a row was opened by a credential that is no longer in the settings. No request finds it, and who
    /// may see it is unknown.
    func belongsToRemovedCredential(_ row: ImageRow) -> Bool {
        row.credential.map { origin(ofCredential: $0) == nil } ?? false
    }

    /// The place of a request's image.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``
    func location(of request: ImageRequest) throws(ImageError) -> CacheLocation {
        guard let location = resolve(request) else {
            throw ImageError(.invalidURL, ImageAddress.refusal(of: request.url))
        }
        return location
    }

    /// The place of a request's image; nil if its URL is invalid.
    func resolve(_ request: ImageRequest) -> CacheLocation? {
        guard let address = ImageAddress(request.url) else { return nil }
        let origin = origins[address.origin]
        // An image that needed a credential is not found by a request without it.
        let credential = origin?.credential == nil ? "" : address.origin
        let subject =
            request.cacheKey.map { address.origin + "\n" + $0 }
            ?? address.text { member in origin?.ignores(member) ?? false }
        let text = credential + "\n" + subject
        return CacheLocation(address: address, keyText: text, key: ImageKey(text), origin: origin)
    }
}
