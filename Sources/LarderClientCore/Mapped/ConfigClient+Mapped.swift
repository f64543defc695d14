import LarderEncoding
import LarderProtocol
package import LarderSnapshotFile

extension ConfigClient {
    /// Returns the whole current snapshot as a file that is mapped into memory. Looking up a value in the snapshot
    /// needs no system call.
    ///
    /// ```swift
    /// let snapshot = try await client.config.mappedSnapshot()
    /// let limit = try snapshot.int(at: "search.limit") ?? 10
    /// ```
    ///
    /// The client caches the newest snapshot of each namespace. While the cached snapshot is current, this method
    /// returns it without a request, so you can call the method wherever a value is needed. In a tight loop, keep the
    /// returned snapshot, and call this method again only when ``MappedSnapshot/isCurrent`` is false. A snapshot stays
    /// valid as long as it is referenced.
    /// - Parameters:
    ///   - sharesMemory: true to map the agent's file of the snapshot, which all clients share. Pass false if the socket
    ///     cannot pass descriptors, for example because it is relayed. The agent then sends the document as JSON, and
    ///     the client writes it to a file in the memory of this process.
    /// - Throws: `remote` with `notFound` or `unavailable` before the first publication; `protocolViolation` if the
    ///   reply comes without a file or the file cannot be read.
    public func mappedSnapshot(
        sharesMemory: Bool = true
    ) async throws(LarderClientError) -> MappedSnapshot {
        try await mappedSnapshot(sharesMemory: sharesMemory, since: nil)
    }

    /// Returns the whole current snapshot, mapped into memory. A cached snapshot is not used if it is older than
    /// `known`, the position of a snapshot that the agent has announced. If `known` is nil, any cached snapshot that is
    /// current is used.
    package func mappedSnapshot(
        sharesMemory: Bool, since known: SnapshotReceiver.Position?
    ) async throws(LarderClientError) -> MappedSnapshot {
        if let cached = cached(namespace, since: known) { return cached }
        let token = InvalidationToken()
        let snapshot =
            sharesMemory ? try await opened(namespace, token) : try await copiedSnapshot(token)
        // A concurrent call may already have cached a snapshot. If it is not older than the one opened here, no
        // subscription is needed.
        let position = SnapshotReceiver.Position(revision: snapshot.revision, epoch: snapshot.epoch)
        if let cached = cached(namespace, since: position) { return cached }
        let parameters = ConfigSubscribe.Parameters(
            namespace: namespace, mode: .revision, since: snapshot.revision, epoch: snapshot.epoch)
        let subscription = try await client.subscribe(parameters, InvalidatingReceiver(token: token))
        return client.mappedSnapshots.keep(snapshot, token, subscription, of: namespace)
    }

    /// The cached snapshot of a namespace if it is current and not older than the position `known`.
    private func cached(_ namespace: String, since known: SnapshotReceiver.Position?) -> MappedSnapshot? {
        guard let snapshot = client.mappedSnapshots.current(namespace) else { return nil }
        guard let known else { return snapshot }
        return snapshot.epoch == known.epoch && snapshot.revision >= known.revision ? snapshot : nil
    }

    private func opened(
        _ namespace: String, _ token: InvalidationToken
    ) async throws(LarderClientError) -> MappedSnapshot {
        try await concurrently { () async throws(LarderClientError) in
            let call = DescriptorCall(client)
            let (result, file) = try await call.send(ConfigOpen.self, ConfigOpen.Parameters(namespace: namespace))
            guard let file else {
                throw LarderClientError(
                    .protocolViolation, "the agent's reply came without a file",
                    advice: "if the socket is relayed, use mappedSnapshot(sharesMemory: false)")
            }
            let snapshot: MappedSnapshot
            do throws(SnapshotFileError) {
                snapshot = MappedSnapshot(
                    try SnapshotFileReader(
                        descriptor: file.descriptor, token: token, secretPaths: result.secretPaths))
            } catch {
                throw LarderClientError(.protocolViolation, error.reason)
            }
            guard snapshot.revision == result.revision, snapshot.epoch == result.epoch else {
                throw LarderClientError(
                    .protocolViolation, "the agent passed the file of a different snapshot than its reply names")
            }
            return snapshot
        }
    }

    /// Returns a stream of mapped snapshots: the current one, then each new one. The file of a snapshot is opened only
    /// when the iteration requests the snapshot.
    ///
    /// ```swift
    /// for try await snapshot in client.config.mappedSnapshots() {
    ///     await server.setLimit(try snapshot.int(at: "search.limit") ?? 10)
    /// }
    /// ```
    public func mappedSnapshots() -> MappedSnapshots {
        MappedSnapshots(
            client: client, namespace: namespace, announcements: snapshots(mode: .revision))
    }
}

extension ConfigCalls {
    /// Reads the whole document, and maps a copy of it into memory.
    /// - Parameter token: records whether the copy is the newest one.
    package func copiedSnapshot(_ token: InvalidationToken) async throws(LarderClientError) -> MappedSnapshot {
        try await concurrently { () async throws(LarderClientError) in
            let snapshot = try await snapshot(at: "", maximumAge: nil, staleIfError: nil)
            do throws(SnapshotFileError) {
                let file = try SnapshotFileWriter.file(
                    of: snapshot.value ?? .emptyObject, revision: snapshot.revision, epoch: snapshot.epoch,
                    name: "larder \(namespace) \(snapshot.revision)")
                return MappedSnapshot(
                    try SnapshotFileReader(descriptor: file.descriptor, token: token, epoch: snapshot.epoch))
            } catch {
                throw LarderClientError(.unreachable, error.reason)
            }
        }
    }
}

/// Invalidates a snapshot at the first event of a subscription that started at the snapshot's revision, or when the
/// subscription ends.
struct InvalidatingReceiver: EventReceiver {
    let token: InvalidationToken

    func receive(_ event: ConfigEvent) {
        if case .unknown = event.content { return }
        token.invalidate()
    }

    func interrupt(_ error: LarderClientError) { token.invalidate() }

    func withdraw() { token.invalidate() }
}

/// A stream of mapped snapshots of a namespace: the current one at once, then each new one.
///
/// ```swift
/// for try await snapshot in client.config.mappedSnapshots() {
///     print(snapshot.revision, try snapshot.int(at: "search.limit") ?? 10)
/// }
/// ```
///
/// The agent announces each revision without its content. The file is opened when the next element is requested, so a
/// slow consumer opens only the file of the newest snapshot. As in ``LarderSnapshots``, revisions only increase within
/// an epoch, no snapshot is delivered twice, and the stream survives restarts of the agent and refusals. It has the same
/// configuration:
///
/// ```swift
/// let snapshots = client.config.mappedSnapshots()
///     .failOnRefusal()
///     .onInterruption { print("disconnected: \($0.error)") }
///     .onResumption { print("connected again") }
/// ```
public struct MappedSnapshots: AsyncSequence, Sendable {
    /// A snapshot.
    public typealias Element = MappedSnapshot
    /// The error that ends the stream.
    public typealias Failure = LarderClientError

    let client: LarderClient
    let namespace: String
    var announcements: LarderSnapshots

    /// Returns the stream with a handler of interruptions; see ``LarderSnapshots/onInterruption(_:)``.
    public func onInterruption(_ handler: @escaping @Sendable (ConfigInterruption) -> Void) -> MappedSnapshots {
        changed { $0.onInterruption(handler) }
    }

    /// Returns the stream with a handler of resumptions; see ``LarderSnapshots/onResumption(_:)``.
    public func onResumption(_ handler: @escaping @Sendable () -> Void) -> MappedSnapshots {
        changed { $0.onResumption(handler) }
    }

    /// Returns the stream such that a refusal (``LarderClientError/isRefusal``) ends it with the error.
    public func failOnRefusal() -> MappedSnapshots { changed { $0.failOnRefusal() } }

    private func changed(_ change: (LarderSnapshots) -> LarderSnapshots) -> MappedSnapshots {
        var copy = self
        copy.announcements = change(announcements)
        return copy
    }

    /// Starts an iteration. It subscribes when the first snapshot is requested.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(self, announcements: announcements.makeAsyncIterator())
    }

    /// An iteration over the snapshots.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let snapshots: MappedSnapshots
        private var announcements: LarderSnapshots.AsyncIterator
        private var newest: SnapshotReceiver.Position?

        init(_ snapshots: MappedSnapshots, announcements: LarderSnapshots.AsyncIterator) {
            self.snapshots = snapshots
            self.announcements = announcements
        }

        /// Waits for the next snapshot. Returns nil once the task is cancelled.
        /// - Throws: an error that a retry cannot resolve, such as `closed`; with ``MappedSnapshots/failOnRefusal()``
        ///   also the error of a refusal, such as `remote` with `unknownNamespace`.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> MappedSnapshot? {
            while let announced = try await announcements.next(isolation: actor) {
                let position = SnapshotReceiver.Position(revision: announced.revision, epoch: announced.epoch)
                // Skip this announcement if the file that was opened for an earlier announcement already had this
                // revision or a newer one.
                guard position.isNewer(than: newest) else { continue }
                guard let snapshot = try await open(position) else { return nil }
                newest = SnapshotReceiver.Position(revision: snapshot.revision, epoch: snapshot.epoch)
                return snapshot
            }
            return nil
        }

        /// Opens the snapshot that is current now. Returns nil once the task is cancelled.
        private func open(
            _ announced: SnapshotReceiver.Position
        ) async throws(LarderClientError) -> MappedSnapshot? {
            let (config, configuration) = (snapshots.client.config, snapshots.client.configuration)
            let monitor = snapshots.client.slot.monitor
            let handlers = snapshots.announcements.handlers
            var attempts = StreamAttempts(backoff: configuration.backoff, failsOnRefusal: handlers.failsOnRefusal)
            while !Task.isCancelled {
                do throws(LarderClientError) {
                    let snapshot = try await config[snapshots.namespace].mappedSnapshot(
                        sharesMemory: true, since: announced)
                    if attempts.resume() {
                        monitor.succeeded()
                        handlers.resumed()
                    }
                    return snapshot
                } catch {
                    if Task.isCancelled { return nil }
                    // A retry does not help if the agent cannot pass files.
                    if error.code == .protocolViolation { throw error }
                    let (delay, interruption) = try attempts.fail(error)
                    if let interruption {
                        monitor.failed(ConfigOpen.name, error, retryAfter: delay)
                        handlers.interrupted(interruption)
                    }
                    try? await configuration.clock.sleep(for: delay)
                }
            }
            return nil
        }
    }
}
