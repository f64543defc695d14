public import JSON

/// `agent.ping`: is the agent there and answering?
public enum AgentPing: WireMethod {
    /// `agent.ping`
    public static let name = "agent.ping"
    public typealias Parameters = NoParameters

    /// `{"pong":true}`
    public struct Result: WireResult, Equatable {
        public init() {}
        public init(from value: JSONValue) throws(WireError) {
            _ = try MemberReader(object: value).requiredBool("pong")
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("pong", true)
            writer.endObject()
        }
    }
}
