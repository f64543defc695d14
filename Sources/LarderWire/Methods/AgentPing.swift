public import JSON

/// `agent.ping`: is the agent there and answering?
public enum AgentPing: WireMethod {
    /// `agent.ping`
    public static let name = "agent.ping"
    /// None.
    public typealias Parameters = NoParameters

    /// `{"pong":true}`
    public struct Result: WireResult, Equatable {
        /// Makes it.
        public init() {}
        /// Reads it.
        public init(from value: JSONValue) throws(WireError) {
            _ = try MemberReader(object: value).requiredBool("pong")
        }
        /// Writes it.
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("pong", true)
            writer.endObject()
        }
    }
}
