package import LarderHTTPSemantics
package import LarderImageFormats

/// All that is known of an image that is held.
package struct ImageRow: Sendable, Hashable {
    /// The text of its key.
    package var keyText: String
    /// Where it was fetched from, after redirects.
    package var url: String
    /// Its file.
    package var digest: BlobDigest
    /// The file's size in bytes.
    package var size: Int
    /// Its type and size in pixels.
    package var header: ImageHeader
    /// What the origin said.
    package var response: StoredResponse
    /// When it was used last, in seconds since 1970.
    package var lastUse: Int
    /// Whether it must stay until it is unpinned.
    package var isPinned: Bool

    /// Makes a row.
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

    /// The key.
    package var key: ImageKey { ImageKey(keyText) }

    /// The name of the credential that opened it, which is its origin's, if one did.
    var credential: String? { Self.credential(keyText) }

    static func credential(_ keyText: String) -> String? {
        let name = keyText.prefix { $0 != "\n" }
        return name.isEmpty ? nil : String(name)
    }

    /// What of it is kept in memory.
    package var entry: ImageEntry {
        ImageEntry(
            key: key, digest: digest, size: size, freshness: ResponseFreshness(response), lastUse: lastUse,
            isPinned: isPinned, variant: response.variant.fingerprint, type: header.type, width: header.width,
            height: header.height)
    }
}

/// What is kept in memory of an image that is held: enough to decide whether it answers a request, and to find its file.
package struct ImageEntry: Sendable, Hashable {
    /// Under what it is looked up.
    package let key: ImageKey
    /// Its file.
    package let digest: BlobDigest
    /// How long it is good.
    package let freshness: ResponseFreshness
    private let shortSize: UInt32
    private var shortUse: UInt32
    /// Whether it must stay until it is unpinned.
    package var isPinned: Bool
    /// The type.
    package let type: ImageType
    private let shortWidth: UInt32
    private let shortHeight: UInt32
    let variant: UInt64

    /// Makes an entry; `variant` is ``Variant/fingerprint``.
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

    /// Whether it answers a request, or nothing if only its row can tell.
    ///
    /// - Parameter fingerprint: ``Variant/fingerprint(of:)`` of the request, which is nearly always the same
    package func matches(_ fingerprint: UInt64) -> Bool? {
        switch variant {
        case 0, fingerprint: true
        case .max: false
        default: nil
        }
    }

    /// The file's size in bytes. No image of 4 GiB is ever let in.
    package var size: Int { Int(shortSize) }

    /// When it was used last, in seconds since 1970.
    package var lastUse: Int {
        get { Int(shortUse) }
        set { shortUse = UInt32(clamping: newValue) }
    }
}

extension ResponseFields {
    /// One line for each, as HTTP has them.
    var text: String { Self.text(lines) }

    /// Reads what ``text`` gave.
    init(text: String) { self.init(Self.lines(text)) }

    static func text(_ lines: [(name: String, value: String)]) -> String {
        // No field that came over HTTP has an end of line in it.
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
    /// The fields that were sent of those that count.
    var requestLines: [(name: String, value: String)] {
        fields.keys.sorted().compactMap { name in (fields[name] ?? nil).map { (name, $0) } }
    }
}
