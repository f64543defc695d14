public import JSON

/// `image.pin`: keeps an image until it is unpinned; it is fetched first where it is not held.
public enum ImagePin: WireMethod {
    /// `image.pin`
    public static let name = "image.pin"
    public typealias Parameters = ImageReference

    /// The image that is pinned.
    public struct Result: WireResult, Hashable {
        public var image: WireImage
        public init(image: WireImage) { self.image = image }
        public init(from value: JSONValue) throws(WireError) {
            image = try WireImage(from: MemberReader(object: value))
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("pinned", true)
            image.writeMembers(to: &writer)
            writer.endObject()
        }
    }
}
