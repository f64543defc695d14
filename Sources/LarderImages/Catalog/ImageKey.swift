internal import LarderDigest
internal import LarderEncoding
internal import LarderUpstream

/// The lookup key of an image: the first 128 bits of the SHA-256 of its key text. The text itself, usually a URL, is
/// stored on disk only. Finding two texts with the same key would take about 2^64 attempts.
package struct ImageKey: Sendable, Hashable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    /// Computes the key of a key text; see ``CacheLocation/keyText``.
    package init(_ text: String) {
        var numbers: [UInt64] = [0, 0]
        for (index, byte) in SHA256.hash(text.utf8).prefix(16).enumerated() {
            numbers[index / 8] = numbers[index / 8] << 8 | UInt64(byte)
        }
        (high, low) = (numbers[0], numbers[1])
    }

    /// Creates a key from its 16 bytes. Returns nil for any other number of bytes.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 16 else { return nil }
        high = UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))
        low = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }

    /// Parses 32 lower-case hexadecimal digits; nil for any other text.
    init?(hex: String) {
        guard hex.utf8.count == 32, let key = [UInt8](hex: hex)?.withUnsafeBytes({ ImageKey($0) }) else { return nil }
        self = key
    }

    var bytes: [UInt8] {
        [high, low].flatMap { number in
            stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
        }
    }

    /// The bits by which ``S3FIFO`` recognizes an image that is added again after its eviction.
    var fingerprint: UInt32 { UInt32(truncatingIfNeeded: low) }

    /// 32 lower-case hexadecimal digits.
    package var description: String { bytes.hex }

    /// The bits of a SHA-256 are uniformly distributed, so they need no further hashing.
    package func hash(into hasher: inout Hasher) { hasher.combine(high) }
}

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

    /// When the first certificate of an origin's settings expires; see ``ImageStatistics/certificateExpiresAt``.
    var certificateExpiry: (seconds: Int, file: String)? {
        origins.values.compactMap(\.tls.firstExpiry).min { $0.seconds < $1.seconds }
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

/// A prefix of URLs: an origin, or an origin and the start of a path and query.
package struct ImagePrefix: Sendable, Hashable {
    private let origin: String
    private let text: String
    private let isOrigin: Bool

    /// Parses an absolute `http` or `https` URL. A URL without a path selects all images of the origin.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``
    package init(_ url: String) throws(ImageError) {
        let address: FetchURL
        do { address = try FetchURL(parsing: url) } catch { throw ImageError(error) }
        // Image URLs are stored without fragments. If the fragment of a prefix were ignored, the prefix would select
        // more images than intended.
        guard !url.utf8.contains(UInt8(ascii: "#")) else {
            throw ImageError(
                .invalidURL, "the prefix has a fragment, but image URLs are stored without one; end it before \"#\"")
        }
        // The same applies to dot segments. `/a/.` may be meant to select `/a/.b`, but would select all of `/a/`.
        let path = url.utf8.prefix { $0 != UInt8(ascii: "?") }
        guard !path.reversed().starts(with: "./".utf8), !path.reversed().starts(with: "../".utf8) else {
            throw ImageError(
                .invalidURL, "the path of the prefix ends in a dot segment, which no image URL has; remove it")
        }
        origin = address.origin
        text = address.text
        isOrigin = address.path == "/" && address.query == nil
    }

    /// Whether the prefix selects an image. The image's key and the prefix must have the same origin. If the prefix has
    /// a path or query, it is compared with the URL in the image's key text, which has no query if the image was
    /// requested by a cache key.
    func contains(_ row: ImageRow) -> Bool {
        let url = row.lookup.url
        guard let address = try? FetchURL(parsing: url), address.origin == origin else { return false }
        return isOrigin || address.text.utf8.starts(with: text.utf8)
    }
}
