package import LarderHTTPSemantics
package import LarderImageFormats

/// The complete record of a cached image, as stored in the index.
package struct ImageRow: Sendable, Hashable {
    /// The text whose hash is the key; see ``CacheLocation/keyText``.
    package var keyText: String
    /// The URL from which the image was fetched, after redirects.
    package var url: String
    /// The digest of the bytes, which names the file.
    package var digest: BlobDigest
    /// The size of the file in bytes.
    package var size: Int
    /// The type and the size in pixels.
    package var header: ImageHeader
    /// The metadata of the origin's response.
    package var response: StoredResponse
    /// The time of the last use, in seconds since 1970.
    package var lastUse: Int
    /// Whether the image must stay until it is unpinned.
    package var isPinned: Bool

    package init(
        keyText: String, url: String, blob: PublishedBlob, response: StoredResponse, lastUse: Int,
        isPinned: Bool = false
    ) {
        self.keyText = keyText
        self.url = url
        digest = blob.digest
        size = blob.size
        header = blob.header
        self.response = response
        self.lastUse = lastUse
        self.isPinned = isPinned
    }

    package var key: ImageKey { ImageKey(keyText) }

    /// The length of the row's texts in bytes.
    package var textBytes: Int {
        response.fields.lines.reduce(keyText.utf8.count + url.utf8.count) {
            $0 + $1.name.utf8.count + $1.value.utf8.count
        }
    }

    /// The name of the credential with which the image was fetched, that is, the name of its origin. Nil if no
    /// credential was used.
    var credential: String? { Self.credential(keyText) }

    static func credential(_ keyText: String) -> String? {
        let name = keyText.prefix { $0 != "\n" }
        return name.isEmpty ? nil : String(name)
    }

    /// When the origin sent the image or last confirmed it, in seconds since 1970.
    package var storedAt: Int { response.responseTime }

    package var details: ImageDetails { ImageDetails(header: header, response: response) }

    /// The time until which the image is fresh, in seconds since 1970.
    package var expiresAt: Int {
        let freshness = ResponseFreshness(response)
        return freshness.responseTime - freshness.initialAge + freshness.lifetime
    }

    /// The lookup key in readable form: a URL without the query members that the settings ignore, or a URL without its
    /// query and a ``ImageRequest/cacheKey``.
    package var lookup: (url: String, cacheKey: String?) {
        let lines = keyText.split(separator: "\n", maxSplits: 2, omittingEmptySubsequences: false)
        guard lines.count > 1 else { return (keyText, nil) }
        return (String(lines[1]), lines.count > 2 ? String(lines[2]) : nil)
    }

    /// The part of the row that is kept in memory.
    package var entry: ImageEntry {
        ImageEntry(
            key: key, digest: digest, size: size, freshness: ResponseFreshness(response), lastUse: lastUse,
            isPinned: isPinned, variant: response.variant.fingerprint, type: header.type, width: header.width,
            height: header.height)
    }
}

/// The part of a cached image's record that is kept in memory. It is enough to decide whether the image answers a
/// request, and to find its file.
package struct ImageEntry: Sendable, Hashable {
    package let key: ImageKey
    /// The digest of the bytes, which names the file.
    package let digest: BlobDigest
    package let freshness: ResponseFreshness
    private let shortSize: UInt32
    private var shortUse: UInt32
    /// Whether the image must stay until it is unpinned.
    package var isPinned: Bool
    package let type: ImageType
    private let shortWidth: UInt32
    private let shortHeight: UInt32
    let variant: UInt64

    /// Creates an entry. `variant` is ``Variant/fingerprint``.
    package init(
        key: ImageKey, digest: BlobDigest, size: Int, freshness: ResponseFreshness, lastUse: Int, isPinned: Bool,
        variant: UInt64, type: ImageType, width: Int, height: Int
    ) {
        self.key = key
        self.digest = digest
        self.freshness = freshness
        shortSize = UInt32(clamping: size)
        shortUse = UInt32(clamping: lastUse)
        self.isPinned = isPinned
        self.variant = variant
        self.type = type
        shortWidth = UInt32(clamping: width)
        shortHeight = UInt32(clamping: height)
    }

    /// The width in pixels.
    package var width: Int { Int(shortWidth) }

    /// The height in pixels.
    package var height: Int { Int(shortHeight) }

    /// Whether the `Vary` field of the cached response allows the image to answer a request. Nil if this cannot be
    /// decided without the complete row.
    ///
    /// - Parameter fingerprint: ``Variant/fingerprint(of:)`` of the request. Nearly all requests have the same
    ///   fingerprint, so the result is rarely nil
    package func matches(_ fingerprint: UInt64) -> Bool? {
        switch variant {
        case 0, fingerprint: true
        case .max: false
        default: nil
        }
    }

    /// The size of the file in bytes. Images are always smaller than 4 GiB.
    package var size: Int { Int(shortSize) }

    /// The time of the last use, in seconds since 1970.
    package var lastUse: Int {
        get { Int(shortUse) }
        set { shortUse = UInt32(clamping: newValue) }
    }
}

extension ResponseFields {
    /// The fields in HTTP syntax, one per line.
    var text: String { Self.text(lines) }

    /// Parses the format of ``text``.
    init(text: String) { self.init(Self.lines(text)) }

    static func text(_ lines: [(name: String, value: String)]) -> String {
        // Fields received over HTTP never contain line ends. Line ends in other fields are replaced by spaces, because
        // a line end separates two fields in this format.
        lines.map { "\($0.name): \($0.value.map { $0.isNewline ? " " : $0 }.reduce(into: "") { $0.append($1) })\n" }
            .joined()
    }

    static func lines(_ text: String) -> [(name: String, value: String)] {
        text.split(separator: "\n").compactMap { line in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            return (String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " }))
        }
    }
}

extension Variant {
    /// The fields of the original request that `Vary` names, without those that the request did not have.
    var requestLines: [(name: String, value: String)] {
        fields.keys.sorted().compactMap { name in (fields[name] ?? nil).map { (name, $0) } }
    }
}

/// The details of recently used images, by slot. They are loaded again if they were dropped, so that the memory for a
/// million images does not depend on how many of them have been used.
struct DetailsPool: Sendable {
    private let limit: Int
    private var details: [ImageDetails?] = []
    /// The slots in the order in which their details were added; a ring when it has ``limit`` slots. A slot stays after
    /// its details were removed.
    private var order: [UInt32] = []
    /// The place of the oldest slot in the ring.
    private var oldest = 0

    /// - Parameter limit: the maximum number of details, at least 1
    init(limit: Int = 100_000) { self.limit = limit }

    /// The details of the image in a slot; nil until they have been loaded, and after they were dropped.
    subscript(slot: UInt32) -> ImageDetails? {
        get { Int(slot) < details.count ? details[Int(slot)] : nil }
        set {
            if Int(slot) >= details.count {
                guard newValue != nil else { return }
                details += Array(repeating: nil, count: Int(slot) + 1 - details.count)
            }
            let isNew = details[Int(slot)] == nil
            details[Int(slot)] = newValue
            if isNew, newValue != nil { add(slot) }
        }
    }

    /// Adds a slot to the ring, and drops the details of the oldest one if the ring is full.
    private mutating func add(_ slot: UInt32) {
        guard order.count == limit else { return order.append(slot) }
        if order[oldest] != slot { details[Int(order[oldest])] = nil }
        order[oldest] = slot
        oldest = (oldest + 1) % limit
    }

    /// The number of images with details, for tests.
    var count: Int { details.count { $0 != nil } }
}
