import LarderJSON

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
    /// What else its header and its origin tell.
    public var details: WireImageDetails

    public init(
        digest: WireDigest, mediaType: String, width: Int, height: Int, bytes: Int,
        details: WireImageDetails = WireImageDetails()
    ) {
        self.digest = digest
        self.mediaType = mediaType
        self.width = width
        self.height = height
        self.bytes = bytes
        self.details = details
    }

    init(from reader: MemberReader) throws(WireError) {
        guard let digest = try reader.digest("digest") else { throw WireError(.invalidParams, "\"digest\" is missing") }
        self.digest = digest
        mediaType = try reader.requiredString("mediaType")
        width = try reader.requiredInt("width")
        height = try reader.requiredInt("height")
        bytes = try reader.requiredInt("bytes")
        details = try WireImageDetails(from: reader)
    }

    /// Writes its members into an object that is open.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("digest", digest.description)
        writer.member("mediaType", mediaType)
        writer.member("width", width)
        writer.member("height", height)
        writer.member("bytes", bytes)
        details.writeMembers(to: &writer)
    }
}

/// What the header of an image and its origin tell besides its type and size. What is unknown is nil.
public struct WireImageDetails: Sendable, Hashable {
    /// The number of frames: 1 for a still image, nil if only the whole file would tell.
    public var frames: Int?
    /// Whether it is an animation; nil if only the whole file would tell.
    public var isAnimation: Bool?
    /// Whether pixels may be transparent; nil if the header does not tell.
    public var hasAlpha: Bool?
    /// How a decoder has to turn or mirror the picture, 2 to 8 as EXIF counts; nil if it is upright already.
    public var orientation: Int?
    /// When it was changed last, as its origin says.
    public var lastModified: Timestamp?
    /// The origin's entity tag, with its quotes.
    public var etag: String?

    public init(
        frames: Int? = nil, isAnimation: Bool? = nil, hasAlpha: Bool? = nil, orientation: Int? = nil,
        lastModified: Timestamp? = nil, etag: String? = nil
    ) {
        self.frames = frames
        self.isAnimation = isAnimation
        self.hasAlpha = hasAlpha
        self.orientation = orientation
        self.lastModified = lastModified
        self.etag = etag
    }

    init(from reader: MemberReader) throws(WireError) {
        frames = try reader.int("frames", in: 1...Int.max)
        isAnimation = try reader.bool("animation")
        hasAlpha = try reader.bool("alpha")
        orientation = try reader.int("orientation", in: 1...8)
        lastModified = try reader.timestamp("lastModified")
        etag = try reader.string("etag")
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("frames", frames)
        if let isAnimation { writer.member("animation", isAnimation) }
        if let hasAlpha { writer.member("alpha", hasAlpha) }
        writer.member("orientation", orientation)
        writer.member("lastModified", lastModified?.description)
        writer.member("etag", etag)
    }
}
