internal import LarderUpstream

/// Identifies an image in the cache.
struct CacheLocation: Sendable {
    let address: FetchURL
    /// The text whose hash is ``key``. Its first line is the name of the credential, or empty. The rest is either the
    /// URL as it is requested, or that URL without its query and, in another line, the cache key of the request.
    let keyText: String
    let key: ImageKey
    /// The settings of the origin, if any.
    let origin: ImageOrigin?

    /// The key of the complete URL, including ignored query members. It identifies recorded failures, because an
    /// ignored member may be a signature, and one signature may fail while another is valid.
    func exactKey(of url: String) -> ImageKey {
        let text = (try? FetchURL(parsing: url))?.text ?? url
        return ImageKey((origin?.credential == nil ? "" : address.origin) + "\n" + text)
    }
}

/// Computes the keys of requests according to the settings of origins.
struct ImageKeyResolver: Sendable {
    private let origins: [String: ImageOrigin]

    init(_ origins: [ImageOrigin]) {
        self.origins = Dictionary(origins.map { ($0.name, $0) }) { _, last in last }
    }

    /// The settings of a URL's origin, if any.
    func origin(of url: String) -> ImageOrigin? {
        guard !origins.isEmpty, let address = try? FetchURL(parsing: url) else { return nil }
        return origins[address.origin]
    }

    /// The settings of the origin whose credential has this name; nil if the credential has been removed from the
    /// settings.
    func origin(ofCredential name: String) -> ImageOrigin? { origins[name].flatMap { $0.credential == nil ? nil : $0 } }

    /// Whether the image of a row was fetched with a credential that has been removed from the settings. No request can
    /// find such an image, and its permitted users are unknown.
    func belongsToRemovedCredential(_ row: ImageRow) -> Bool {
        row.credential.map { origin(ofCredential: $0) == nil } ?? false
    }

    /// The location of a request's image.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``
    func location(of request: ImageRequest) throws(ImageError) -> CacheLocation {
        do {
            return try resolve(request)
        } catch {
            throw ImageError(error)
        }
    }

    /// The location of a request's image.
    func resolve(_ request: ImageRequest) throws(InvalidURL) -> CacheLocation {
        let address = try FetchURL(parsing: request.url)
        let origin = origins[address.origin]
        // The key text contains the name of the credential, so that a request that is sent without the credential does
        // not find an image that was fetched with it.
        let credential = origin?.credential == nil ? "" : address.origin
        let subject =
            request.cacheKey.map { address.origin + address.path + "\n" + $0 }
            ?? address.text { member in origin?.ignores(member) ?? false }
        let text = credential + "\n" + subject
        return CacheLocation(address: address, keyText: text, key: ImageKey(text), origin: origin)
    }
}
