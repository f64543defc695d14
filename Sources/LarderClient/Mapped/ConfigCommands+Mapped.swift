import LarderJSON
public import LarderProtocol
public import LarderSnapshotFile
import Synchronization

extension ConfigCommands {
    /// The whole current snapshot in this process's memory, where values are looked up without a system call.
    ///
    /// ```swift
    /// let snapshot = try await client.config.snapshot(mapped: true)
    /// let limit = snapshot.int(at: "search.limit") ?? 10
    /// ```
    ///
    /// The client keeps the newest one of each namespace: as long as that is current, this returns it and asks nobody. So it
    /// may be called wherever the configuration is needed; in a loop that is tight, look at ``MappedSnapshot/isCurrent`` and
    /// ask again once it is false. What the snapshots were is not lost to who still refers to one.
    /// - Parameters:
    ///   - mapped: true for a file in memory that the agent passes, which all clients share. False where descriptors do not
    ///     come through, as over a socket that is relayed: the document then comes over the connection and becomes such a
    ///     file here.
    /// - Throws: `remote` with `unavailable` where nothing is published yet; `protocolViolation` where no file came with the
    ///   reply, or one that cannot be read.
    public func snapshot(
        namespace: String = defaultNamespace, mapped: Bool
    ) async throws(LarderClientError) -> MappedSnapshot {
        try await snapshot(namespace: namespace, mapped: mapped, since: nil)
    }

    /// The same, and not older than a snapshot that is known.
    func snapshot(
        namespace: String, mapped: Bool, since known: SnapshotReceiver.Position?
    ) async throws(LarderClientError) -> MappedSnapshot {
        if let held = client.mappedSnapshots.current(namespace, since: known) { return held }
        let token = InvalidationToken()
        let snapshot =
            mapped ? try await opened(namespace, token) : try await copied(namespace, token)
        // Whoever was quicker has a subscription already.
        let position = SnapshotReceiver.Position(revision: snapshot.revision, epoch: snapshot.epoch)
        if let held = client.mappedSnapshots.current(namespace, since: position) { return held }
        let parameters = ConfigSubscribe.Parameters(
            namespace: namespace, mode: .revision, since: snapshot.revision, epoch: snapshot.epoch)
        let (result, connection) = try await client.send(
            ConfigSubscribe.self, parameters, purpose: .subscription(InvalidatingReceiver(token: token)))
        client.mappedSnapshots.keep(
            snapshot, OpenSubscription(connection: connection, number: result.subscription), of: namespace)
        return snapshot
    }

    private func opened(
        _ namespace: String, _ token: InvalidationToken
    ) async throws(LarderClientError) -> MappedSnapshot {
        let call = DescriptorCall(socket: client.socket, configuration: client.configuration)
        let (result, file) = try await call.send(ConfigOpen.self, ConfigOpen.Parameters(namespace: namespace))
        guard let file else {
            throw LarderClientError(
                .protocolViolation, "no file came with the agent's reply",
                advice: "where the socket is relayed, use snapshot(mapped: false)")
        }
        let snapshot = try Self.mapping(file.descriptor, token)
        guard snapshot.revision == result.revision, snapshot.epoch == result.epoch else {
            throw LarderClientError(.protocolViolation, "the agent passed the file of another snapshot than it says")
        }
        return snapshot
    }

    private func copied(
        _ namespace: String, _ token: InvalidationToken
    ) async throws(LarderClientError) -> MappedSnapshot {
        let result = try await client.call(ConfigGet.self, ConfigGet.Parameters(namespace: namespace))
        do throws(SnapshotFileError) {
            let file = try SnapshotFileWriter.file(
                of: result.value, revision: result.revision, epoch: result.epoch,
                name: "larder \(namespace) \(result.revision)")
            return try MappedSnapshot(descriptor: file.descriptor, token: token)
        } catch {
            throw LarderClientError(.unreachable, error.reason)
        }
    }

    private static func mapping(
        _ descriptor: CInt, _ token: InvalidationToken
    ) throws(LarderClientError) -> MappedSnapshot {
        do throws(SnapshotFileError) {
            return try MappedSnapshot(descriptor: descriptor, token: token)
        } catch {
            throw LarderClientError(.protocolViolation, error.reason)
        }
    }

    /// Follows the configuration in mapped snapshots: the current one, then each new one, opened when it is asked for.
    ///
    /// ```swift
    /// for try await snapshot in client.config.mappedSnapshots() {
    ///     limiter.limit = snapshot.int(at: "search.limit") ?? 10
    /// }
    /// ```
    /// - Parameter onInterruption: told each time the stream lost its agent and how long it waits before it tries again.
    public func mappedSnapshots(
        namespace: String = defaultNamespace,
        onInterruption: @escaping @Sendable (ConfigInterruption) -> Void = { _ in }
    ) -> MappedSnapshots {
        MappedSnapshots(
            client: client, namespace: namespace,
            announcements: snapshots(namespace: namespace, mode: .revision, onInterruption: onInterruption))
    }
}

/// The newest mapped snapshot of each namespace, for a client: as long as it is current nobody needs to ask for another.
final class MappedSnapshotStore: Sendable {
    private struct Held {
        var snapshot: MappedSnapshot
        /// Brings the news that it is not current any more.
        var subscription: OpenSubscription
    }

    private let held = Mutex<[String: Held]>([:])

    /// The snapshot of a namespace that is held, if it is current and not older than another one that is known.
    func current(_ namespace: String, since known: SnapshotReceiver.Position? = nil) -> MappedSnapshot? {
        guard let snapshot = held.withLock({ $0[namespace]?.snapshot }), snapshot.isCurrent else { return nil }
        guard let known else { return snapshot }
        return snapshot.epoch == known.epoch && snapshot.revision >= known.revision ? snapshot : nil
    }

    /// Keeps a snapshot in the place of the one before.
    func keep(_ snapshot: MappedSnapshot, _ subscription: OpenSubscription, of namespace: String) {
        // What goes is let go of outside the lock: it ends a subscription.
        _ = held.withLock { $0.updateValue(Held(snapshot: snapshot, subscription: subscription), forKey: namespace) }
    }
}

/// Ends a snapshot's token with the first event of a subscription that began at its revision, and with the subscription.
struct InvalidatingReceiver: EventReceiver {
    let token: InvalidationToken

    func receive(_ event: ConfigEvent) { token.invalidate() }

    func interrupt(_ error: LarderClientError) { token.invalidate() }

    func withdraw() { token.invalidate() }
}
