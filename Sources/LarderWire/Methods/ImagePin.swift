public import JSON

/// `image.pin`: keeps an image until it is unpinned; it is fetched first where it is not held.
public enum ImagePin: WireMethod {
    /// `image.pin`
    public static let name = "image.pin"
    /// Which image.
    public typealias Parameters = ImageReference

    /// The image that is pinned.
    public struct Result: WireResult, Hashable {
        /// What it is.
        public var image: WireImage
        /// Makes it.
        public init(image: WireImage) { self.image = image }
        /// Reads it.
        public init(from value: JSONValue) throws(WireError) {
            image = try WireImage(from: MemberReader(object: value))
        }
        /// Writes it.
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("pinned", true)
            image.writeMembers(to: &writer)
            writer.endObject()
        }
    }
}
