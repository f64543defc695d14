public import JSON

/// `image.remove`: takes one image out of the cache, pinned or not. Who has a lease keeps the file.
public enum ImageRemove: WireMethod {
    public static let name = "image.remove"
    public typealias Parameters = ImageReference

    /// Whether it was held.
    public struct Result: WireResult, Hashable {
        /// False where it was not held.
        public var removed: Bool
        /// Its size in bytes; 0 where it was not held.
        public var bytes: Int
        public init(removed: Bool, bytes: Int) {
            self.removed = removed
            self.bytes = bytes
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            removed = try reader.requiredBool("removed")
            bytes = try reader.requiredInt("bytes")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("removed", removed)
            writer.member("bytes", bytes)
            writer.endObject()
        }
    }
}
