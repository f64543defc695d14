public import LarderJSON

/// `image.clear`: takes all images out of the cache, but for those that are pinned. Who has a lease keeps the file.
public enum ImageClear: WireMethod {
    public static let name = "image.clear"

    public struct Parameters: WireParameters, Hashable {
        /// Whether those that are pinned go too.
        public var includesPinned: Bool
        public static var positional: [String] { ["includingPinned"] }
        public init(includesPinned: Bool = false) { self.includesPinned = includesPinned }
        public init(from reader: MemberReader) throws(WireError) {
            includesPinned = try reader.bool("includingPinned") ?? false
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            if includesPinned { writer.member("includingPinned", true) }
            writer.endObject()
        }
    }

    /// How much went.
    public struct Result: WireResult, Hashable {
        /// Images removed.
        public var removed: Int
        /// Their size in bytes.
        public var bytes: Int
        public init(removed: Int, bytes: Int) {
            self.removed = removed
            self.bytes = bytes
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            removed = try reader.requiredInt("removed")
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
