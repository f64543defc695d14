import LarderProtocol
public import LarderSnapshotFile

/// The mapped snapshots of a namespace: the current one at once, then each new one.
///
/// The agent announces each revision without its content; the file is opened when the next element is asked for, so that a
/// consumer that is slow opens the newest only. The rest is as in ``ConfigSnapshots``: never an older revision of the same
/// epoch, none twice, and an agent that goes away is waited for.
public struct MappedSnapshots: AsyncSequence, Sendable {
    /// A snapshot.
    public typealias Element = MappedSnapshot
    /// What it throws.
    public typealias Failure = LarderClientError

    let client: LarderClient
    let namespace: String
    let announcements: ConfigSnapshots

    /// Begins an iteration; it subscribes when the first snapshot is asked for.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(self, announcements: announcements.makeAsyncIterator())
    }

    /// One iteration.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let snapshots: MappedSnapshots
        private var announcements: ConfigSnapshots.AsyncIterator
        private var newest: SnapshotReceiver.Position?

        init(_ snapshots: MappedSnapshots, announcements: ConfigSnapshots.AsyncIterator) {
            self.snapshots = snapshots
            self.announcements = announcements
        }

        /// Waits for the next snapshot; nil once the task is cancelled.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> MappedSnapshot? {
            while let announced = try await announcements.next(isolation: actor) {
                let position = SnapshotReceiver.Position(revision: announced.revision, epoch: announced.epoch)
                // What was opened before may have been newer than what was announced by then.
                guard position.isNewer(than: newest) else { continue }
                guard let snapshot = try await open(position) else { return nil }
                newest = SnapshotReceiver.Position(revision: snapshot.revision, epoch: snapshot.epoch)
                return snapshot
            }
            return nil
        }

        /// Opens what is current by now; nil once the task is cancelled.
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
