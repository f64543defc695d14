public import LarderProtocol

/// The `agent.*` methods: information about the agent itself. Available as ``LarderClient/agent``.
///
/// ```swift
/// try await client.agent.ping()
/// print(try await client.agent.info().version)
/// ```
///
/// All methods throw ``LarderClientError``.
public struct AgentClient: Sendable {
    let client: LarderClient

    /// Returns the agent's version, file locations and limits, and the user and rights of this process.
    ///
    /// ```swift
    /// let info = try await client.agent.info()
    /// print("\(info.name) \(info.version), \(info.namespaces.count) namespaces")
    /// ```
    public func info() async throws(LarderClientError) -> AgentInfo.Result {
        try await client.call(AgentInfo.self, NoParameters())
    }

    /// Checks that the agent responds. Returns when its reply arrives.
    ///
    /// - Throws: `timeout` if there is no reply within ``LarderClient/Configuration/timeout``.
    public func ping() async throws(LarderClientError) {
        _ = try await client.call(AgentPing.self, NoParameters())
    }

    /// Returns counters since the agent started, such as requests, connections and refreshes, and current values, such
    /// as resident memory.
    ///
    /// ```swift
    /// print(try await client.agent.stats().traffic.connectionsOpen)
    /// ```
    ///
    /// Needs the right `read` in at least one namespace.
    public func stats() async throws(LarderClientError) -> AgentStats.Result {
        try await client.call(AgentStats.self, NoParameters())
    }

    /// Returns the clients that are connected to the agent, in ascending order of ID, each with its process, its
    /// traffic and the snapshots that it acknowledged.
    ///
    /// ```swift
    /// for other in try await client.agent.clients() { print(other.command, other.requests) }
    /// ```
    ///
    /// Needs the right `administer`.
    public func clients() async throws(LarderClientError) -> [AgentClients.Client] {
        try await client.call(AgentClients.self, NoParameters()).clients
    }
}
