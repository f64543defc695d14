public import LarderJSON

/// `config.unsubscribe`: ends a subscription; after the reply no event of it follows.
public enum ConfigUnsubscribe: WireMethod {
    public static let name = "config.unsubscribe"

    /// Which subscription.
    public struct Parameters: WireParameters {
        /// The number from the reply to `config.subscribe`.
        public var subscription: Int
        public static var positional: [String] { ["subscription"] }
        public init(subscription: Int) { self.subscription = subscription }
        public init(from reader: MemberReader) throws(WireError) {
            subscription = try reader.requiredInt("subscription")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("subscription", subscription)
            writer.endObject()
        }
    }

    /// The subscription that ended.
    public struct Result: WireResult, Equatable {
        public var subscription: Int
        public init(subscription: Int) { self.subscription = subscription }
        public init(from value: JSONValue) throws(WireError) {
            subscription = try MemberReader(object: value).requiredInt("subscription")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("subscription", subscription)
            writer.endObject()
        }
    }
}
