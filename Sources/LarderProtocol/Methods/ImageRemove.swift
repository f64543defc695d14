public import LarderJSON

/// `image.remove`: takes one image out of the cache, or all below a prefix, pinned or not. A client with a lease keeps the
/// file.
public enum ImageRemove: WireMethod {
    public static let name = "image.remove"

    /// Which images.
    public enum Selection: Sendable, Hashable {
        case image(ImageReference)
        /// All whose URL begins so: an origin, or an origin and the beginning of a path.
        case prefix(String)
    }

    /// Which images, and whether they are only counted.
    public struct Parameters: WireParameters, Hashable {
        public var selection: Selection
        /// Whether nothing is removed.
        public var isDryRun: Bool
        public static var positional: [String] { ["url", "cacheKey", "prefix", "dryRun"] }

        public init(_ selection: Selection, isDryRun: Bool = false) {
            self.selection = selection
            self.isDryRun = isDryRun
        }

        public init(from reader: MemberReader) throws(WireError) {
            if let prefix = try reader.text("prefix", bytes: 1...ImageReference.longestURL) {
                guard try reader.string("url") == nil, try reader.string("cacheKey") == nil else {
                    throw WireError(.invalidParams, "\"prefix\" excludes \"url\" and \"cacheKey\"")
                }
                selection = .prefix(prefix)
            } else {
                selection = .image(try ImageReference(from: reader))
            }
            isDryRun = try reader.bool("dryRun") ?? false
        }

        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            switch selection {
            case .image(let image): image.writeMembers(to: &writer)
            case .prefix(let prefix): writer.member("prefix", prefix)
            }
            if isDryRun { writer.member("dryRun", true) }
            writer.endObject()
        }
    }

    /// What was removed.
    public struct Result: WireResult, Hashable {
        /// Whether an image was removed.
        public var removed: Bool
        /// The number of images that were removed, or would be in a dry run.
        public var images: Int
        /// The bytes of their files.
        public var bytes: Int
        public init(removed: Bool, images: Int, bytes: Int) {
            self.removed = removed
            self.images = images
            self.bytes = bytes
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            removed = try reader.requiredBool("removed")
            images = try reader.int("images") ?? (removed ? 1 : 0)
            bytes = try reader.requiredInt("bytes")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("removed", removed)
            writer.member("images", images)
            writer.member("bytes", bytes)
            writer.endObject()
        }
    }
}
