import LarderJSON

extension ImageRemove {
    /// The images to remove.
    public enum Selection: Sendable, Hashable {
        case image(ImageReference)
        /// All images whose URL begins with this text, which is an origin, or an origin and the beginning of a path and
        /// query.
        case prefix(String)

        /// The URL of the image, or the prefix.
        var url: String {
            switch self {
            case .image(let image): image.url
            case .prefix(let prefix): prefix
            }
        }

        init(from reader: MemberReader) throws(WireError) {
            if let prefix = try reader.text("prefix", bytes: 1...ImageReference.longestURL) {
                guard try reader.string("url") == nil, try reader.string("cacheKey") == nil else {
                    throw WireError(.invalidParams, "\"prefix\" excludes \"url\" and \"cacheKey\"; send one of them")
                }
                self = .prefix(prefix)
            } else {
                self = .image(try ImageReference(from: reader))
            }
        }

        /// Writes the parameters of the selection into the object that was begun with `writer`.
        func writeMembers(to writer: inout JSONWriter) {
            switch self {
            case .image(let image): image.writeMembers(to: &writer)
            case .prefix(let prefix): writer.member("prefix", prefix)
            }
        }
    }
}
