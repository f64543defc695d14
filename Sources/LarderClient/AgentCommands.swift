public import LarderProtocol

/// The methods `agent.…`, as ``LarderClient/agent``. All throw ``LarderClientError``.
public struct AgentCommands: Sendable {
    let client: LarderClient

    /// Who the agent is, where its files are, its limits, and whom it takes this process for.
    ///
    /// ```swift
    /// let info = try await client.agent.info()
    /// print("\(info.name) \(info.version), \(info.namespaces.count) namespaces")
    /// ```
    public func info() async throws(LarderClientError) -> AgentInfo.Result {
        try await client.call(AgentInfo.self, NoParameters())
    }

    /// Returns once the agent has answered.
    public func ping() async throws(LarderClientError) {
        _ = try await client.call(AgentPing.self, NoParameters())
    }

    /// Counters since the agent's start.
    public func stats() async throws(LarderClientError) -> AgentStats.Result {
        try await client.call(AgentStats.self, NoParameters())
    }

    /// Who is connected, and how they keep up.
    public func clients() async throws(LarderClientError) -> [AgentClients.Client] {
        try await client.call(AgentClients.self, NoParameters()).clients
    }
}
