public import LarderJSON

/// `request.cancel`: ends a request of the same connection that still waits; that one gets the error `cancelled`.
public enum RequestCancel: WireMethod {
    public static let name = "request.cancel"

    public struct Parameters: WireParameters {
        public var id: RequestID
        public static var positional: [String] { ["id"] }
        public init(id: RequestID) { self.id = id }
        public init(from reader: MemberReader) throws(WireError) {
            guard let id = RequestID(try reader.requiredValue("id")) else {
                throw WireError(.invalidParams, "\"id\" must be a string, a number or null")
            }
            self.id = id
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.name("id")
            writer.raw(id.text.utf8)
            writer.endObject()
        }
    }

    /// Whether there was something to cancel.
    public struct Result: WireResult, Equatable {
        /// False where no such request waits: it was answered already, or never came.
        public var cancelled: Bool
        public init(cancelled: Bool) { self.cancelled = cancelled }
        public init(from value: JSONValue) throws(WireError) {
            cancelled = try MemberReader(object: value).requiredBool("cancelled")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("cancelled", cancelled)
            writer.endObject()
        }
    }
}
