public import LarderProtocol

/// Waiting for the configuration, and telling the agent what became of it.
extension ConfigCommands {
    /// Waits until a condition holds; it may hold already.
    ///
    /// ```swift
    /// try await client.config.wait(for: .equals(true), at: "search.enabled", timeout: .seconds(30))
    /// ```
    /// - Parameters:
    ///   - condition: what is waited for: a value, another value, that something is there or not, or a revision.
    ///   - timeout: after how long to give up; nil for never.
    /// - Returns: the snapshot in which it holds.
    /// - Throws: `remote` with `timeout` where it does not hold in time.
    @discardableResult
    public func wait(
        for condition: ConfigWait.Condition, at path: String = "", timeout: Duration? = nil,
        namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigSnapshot {
        let parameters = ConfigWait.Parameters(
            condition, path: try JSONPath(argument: path), namespace: namespace,
            timeoutMilliseconds: timeout?.milliseconds)
        // The agent keeps the time; what is added here is for an agent that does not answer at all.
        let longest = Duration.milliseconds(ConfigWait.Parameters.longestTimeoutMilliseconds)
        let patience = min(timeout ?? longest, longest) + (client.configuration.timeout ?? longest)
        let result = try await client.call(ConfigWait.self, parameters, timeout: patience)
        return ConfigSnapshot(
            value: result.value, revision: result.revision, epoch: result.epoch, state: result.state,
            namespace: namespace)
    }

    /// Tells the agent that this program runs a snapshot, or why it does not. Who asks the agent for its status sees it, as
    /// long as this client is connected.
    ///
    /// ```swift
    /// for try await snapshot in client.config.snapshots(at: "search") {
    ///     do {
    ///         try await server.apply(snapshot.decode(Search.self))
    ///         try await client.config.acknowledge(snapshot)
    ///     } catch let error as SearchError {
    ///         try await client.config.acknowledge(snapshot, accepted: false, reason: error.description)
    ///     }
    /// }
    /// ```
    /// - Parameters:
    ///   - accepted: whether the program runs it.
    ///   - reason: why not, for people, at most 1,024 bytes. Everybody who may connect to the agent can read it: it must
    ///     hold no secret.
    public func acknowledge(
        _ snapshot: ConfigSnapshot, accepted: Bool = true, reason: String? = nil
    ) async throws(LarderClientError) {
        let parameters = ConfigAcknowledge.Parameters(
            revision: snapshot.revision, accepted: accepted, reason: reason, namespace: snapshot.namespace,
            epoch: snapshot.epoch)
        _ = try await client.call(ConfigAcknowledge.self, parameters)
    }
}
