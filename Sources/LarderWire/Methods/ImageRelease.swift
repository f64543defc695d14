public import JSON

/// `image.release`: gives back what one `image.get` of this connection took.
public enum ImageRelease: WireMethod {
    /// `image.release`
    public static let name = "image.release"

    /// Which lease.
    public struct Parameters: WireParameters, Hashable {
        /// The number that `image.get` answered.
        public var lease: Int
        /// `lease`
        public static var positional: [String] { ["lease"] }
        /// Makes them.
        public init(lease: Int) { self.lease = lease }
        /// Reads them.
        public init(from reader: MemberReader) throws(WireError) { lease = try reader.requiredInt("lease") }
        /// Writes them.
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
        /// Makes it.
        public init(released: Bool) { self.released = released }
        /// Reads it.
        public init(from value: JSONValue) throws(WireError) {
            released = try MemberReader(object: value).requiredBool("released")
        }
        /// Writes it.
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("released", released)
            writer.endObject()
        }
    }
}
