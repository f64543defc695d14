public import JSON

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
