import JSON

/// What an image is, as its bytes say.
public struct WireImage: Sendable, Hashable {
    /// The SHA-256 of its bytes.
    public var digest: WireDigest
    /// The media type of its format, such as `image/png`: read from the bytes, whatever the origin called it.
    public var mediaType: String
    /// Its width in pixels, as it is meant to be seen.
    public var width: Int
    /// Its height in pixels, as it is meant to be seen.
    public var height: Int
    /// The size of its file in bytes.
    public var bytes: Int

    public init(digest: WireDigest, mediaType: String, width: Int, height: Int, bytes: Int) {
        self.digest = digest
        self.mediaType = mediaType
        self.width = width
        self.height = height
        self.bytes = bytes
    }

    init(from reader: MemberReader) throws(WireError) {
        guard let digest = try reader.digest("digest") else { throw WireError(.invalidParams, "\"digest\" is missing") }
        self.digest = digest
        mediaType = try reader.requiredString("mediaType")
        width = try reader.requiredInt("width")
        height = try reader.requiredInt("height")
        bytes = try reader.requiredInt("bytes")
    }

    /// Writes its members into an object that is open.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("digest", digest.description)
        writer.member("mediaType", mediaType)
        writer.member("width", width)
        writer.member("height", height)
        writer.member("bytes", bytes)
    }
}
