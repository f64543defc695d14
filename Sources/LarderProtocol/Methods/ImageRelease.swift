public import LarderJSON

/// `image.release`: gives back what one `image.get` of this connection took.
public enum ImageRelease: WireMethod {
    public static let name = "image.release"

    /// Which lease.
    public struct Parameters: WireParameters, Hashable {
        /// The number that `image.get` answered.
        public var lease: Int
        public static var positional: [String] { ["lease"] }
        public init(lease: Int) { self.lease = lease }
        public init(from reader: MemberReader) throws(WireError) { lease = try reader.requiredInt("lease") }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("lease", lease)
            writer.endObject()
        }
    }

    /// Whether there was such a lease.
    public struct Result: WireResult, Hashable {
        /// False where this connection has no such lease: it ended, or never was.
        public var released: Bool
        public init(released: Bool) { self.released = released }
        public init(from value: JSONValue) throws(WireError) {
            released = try MemberReader(object: value).requiredBool("released")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("released", released)
            writer.endObject()
        }
    }
}
