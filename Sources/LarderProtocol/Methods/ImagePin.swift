public import LarderJSON

/// `image.pin`: keeps an image until it is unpinned; it is fetched first where it is not held.
public enum ImagePin: WireMethod {
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

/// `image.unpin`: takes a pin away; the image stays as others do, until its place is needed.
public enum ImageUnpin: WireMethod {
    /// `image.unpin`
    public static let name = "image.unpin"
    public typealias Parameters = ImageReference

    /// Whether there was a pin.
    public struct Result: WireResult, Hashable {
        /// False where the image was not pinned, or is not held.
        public var wasPinned: Bool
        public init(wasPinned: Bool) { self.wasPinned = wasPinned }
        public init(from value: JSONValue) throws(WireError) {
            wasPinned = try MemberReader(object: value).requiredBool("wasPinned")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("wasPinned", wasPinned)
            writer.endObject()
        }
    }
}
