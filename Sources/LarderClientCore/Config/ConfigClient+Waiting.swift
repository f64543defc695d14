public import LarderProtocol

/// Methods that wait for a condition or acknowledge snapshots.
extension ConfigClient {
    /// Waits until a condition holds in the current snapshot. Returns at once if it already holds.
    ///
    /// ```swift
    /// try await client.config.wait(for: .equals(true), at: "search.enabled", timeout: .seconds(30))
    /// ```
    ///
    /// The agent checks the condition only against snapshots, and may combine changes in quick succession into one
    /// snapshot. A value that is replaced immediately after it was set can therefore be missed.
    /// - Parameters:
    ///   - condition: what to wait for: a value that equals or differs from a given one, the presence or absence of a
    ///     value, or a revision.
    ///   - path: the path whose value is checked; empty for the whole document.
    ///   - timeout: how long to wait, in whole milliseconds, rounded up; nil for no limit.
    ///   - namespace: the name of the namespace.
    /// - Returns: the snapshot in which the condition holds.
    /// - Throws: `remote` with `timeout` if the condition does not hold in time.
    @discardableResult
    public func wait(
        for condition: ConfigWait.Condition, at path: String = "", timeout: Duration? = nil,
        namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> LarderSnapshot {
        let parameters = ConfigWait.Parameters(
            condition, path: try JSONPath(argument: path), namespace: namespace,
            timeoutMilliseconds: timeout?.milliseconds)
        // The agent enforces the timeout. The client waits longer, and its own timeout is only for an agent that does
        // not respond at all.
        let maxTimeout = Duration.milliseconds(ConfigWait.Parameters.longestTimeoutMilliseconds)
        let replyTimeout = min(timeout ?? maxTimeout, maxTimeout) + (client.configuration.timeout ?? maxTimeout)
        let result = try await client.call(ConfigWait.self, parameters, timeout: replyTimeout)
        return LarderSnapshot(
            value: result.value, revision: result.revision, epoch: result.epoch, state: result.state,
            namespace: namespace)
    }

    /// Reports to the agent that this program uses a snapshot, or why it rejects the snapshot. The status of the
    /// namespace shows the report while this client is connected.
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
    ///   - snapshot: the snapshot to acknowledge.
    ///   - accepted: true if the program uses the snapshot, false if the program rejects it.
    ///   - reason: why the snapshot is rejected, for people; at most 1,024 bytes. It must not contain secrets, because
    ///     every user who may read the namespace can see it.
    public func acknowledge(
        _ snapshot: LarderSnapshot, accepted: Bool = true, reason: String? = nil
    ) async throws(LarderClientError) {
        let parameters = ConfigAcknowledge.Parameters(
            revision: snapshot.revision, accepted: accepted, reason: reason, namespace: snapshot.namespace,
            epoch: snapshot.epoch)
        _ = try await client.call(ConfigAcknowledge.self, parameters)
    }
}
