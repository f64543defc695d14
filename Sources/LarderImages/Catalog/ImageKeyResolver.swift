/// Where a request looks, and for what.
struct CacheLocation: Sendable {
    let address: ImageAddress
    /// What the key is made of: the credential's name or nothing, a line's end, and the URL, or an origin and the name that
    /// the caller gave.
    let keyText: String
    let key: ImageKey
    /// What the settings say of the origin.
    let origin: ImageOrigin?

    /// The key of the very URL: failures of one signature are none of another.
    func exactKey(of url: String) -> ImageKey {
        ImageKey((origin?.credential == nil ? "" : address.origin) + "\n" + url)
    }
}

/// How requests become keys. A value: a hit reads it on an event loop.
struct ImageKeyResolver: Sendable {
    private let origins: [String: ImageOrigin]

    init(_ origins: [ImageOrigin]) {
        self.origins = Dictionary(origins.map { ($0.name, $0) }) { _, last in last }
    }

    /// What the settings say of a URL's origin.
    func origin(of url: String) -> ImageOrigin? {
        guard !origins.isEmpty, let address = ImageAddress(url) else { return nil }
        return origins[address.origin]
    }

    /// The origin that a credential is for, unless the settings do not have it any more.
    func origin(ofCredential name: String) -> ImageOrigin? { origins[name].flatMap { $0.credential == nil ? nil : $0 } }

    /// Whether nobody can ask for what a key's text stands for: a credential opened it that the settings do not have any
    /// more. Who might see it is then not known either.
    func belongsToRemovedCredential(_ row: ImageRow) -> Bool {
        row.credential.map { origin(ofCredential: $0) == nil } ?? false
    }

    /// Where a request looks; nothing if its URL is none.
    func place(of request: ImageRequest) -> CacheLocation? {
        guard let address = ImageAddress(request.url) else { return nil }
        let origin = origins[address.origin]
        // What an origin gives to us because of who we are is never found by a request that would not show that.
        let credential = origin?.credential == nil ? "" : address.origin
        let subject =
            request.cacheKey.map { address.origin + "\n" + $0 }
            ?? address.text { member in origin?.ignores(member) ?? false }
        let text = credential + "\n" + subject
        return CacheLocation(address: address, keyText: text, key: ImageKey(text), origin: origin)
    }
}
