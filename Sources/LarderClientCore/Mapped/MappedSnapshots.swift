import LarderProtocol
public import LarderSnapshotFile

/// A stream of mapped snapshots of a namespace: the current one at once, then each new one.
///
/// ```swift
/// for try await snapshot in client.config.mappedSnapshots() {
///     print(snapshot.revision, snapshot.int(at: "search.limit") ?? 10)
/// }
/// ```
///
/// The agent announces each revision without its content. The file is opened when the next element is requested, so a
/// slow consumer opens only the file of the newest snapshot. As in ``LarderSnapshots``, revisions only increase within
/// an epoch, no snapshot is delivered twice, and the stream survives restarts of the agent.
public struct MappedSnapshots: AsyncSequence, Sendable {
    /// A snapshot.
    public typealias Element = MappedSnapshot
    /// The error that ends the stream.
    public typealias Failure = LarderClientError

    let client: LarderClient
    let namespace: String
    let announcements: LarderSnapshots

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
        /// - Throws: an error that a retry cannot resolve, such as `remote` with `unknownNamespace`.
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
            var failures = 0
            while !Task.isCancelled {
                do throws(LarderClientError) {
                    return try await config.snapshot(namespace: snapshots.namespace, mapped: true, since: announced)
                } catch {
                    if Task.isCancelled { return nil }
                    guard error.isRetryable else { throw error }
                    let delay = configuration.backoff.delay(beforeAttempt: failures)
                    failures += 1
                    snapshots.announcements.onInterruption(
                        ConfigInterruption(error: error, attempt: failures, delay: delay))
                    try? await configuration.clock.sleep(for: delay)
                }
            }
            return nil
        }
    }
}
