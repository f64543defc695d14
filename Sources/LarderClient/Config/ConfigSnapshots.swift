import LarderJSON
import LarderProtocol

/// The snapshots of the configuration at one path: the current one at once, then each new one as it is published.
///
/// ```swift
/// for try await snapshot in client.config.snapshots(at: "search") {
///     let search = try snapshot.decode(Search.self)
///     await server.apply(search)
/// }
/// ```
///
/// - The newest state wins. A consumer that is slow gets the newest snapshot next, with the number of those passed over
///   in ``ConfigSnapshot/skipped``; nothing queues up.
/// - Within an epoch revisions only grow: an older one is never delivered, and none twice.
/// - It survives the agent: when the connection breaks it connects again, after a delay with full jitter
///   (``LarderClient/Configuration/backoff``), and resumes where it was.
/// - It ends when the task is cancelled. It throws ``LarderClientError`` where no further attempt can help, such as a
///   namespace that the settings do not declare.
///
/// Each iteration is a subscription of its own, which ends with it. It runs in the task that iterates and nowhere else.
public struct ConfigSnapshots: AsyncSequence, Sendable {
    /// A snapshot.
    public typealias Element = ConfigSnapshot
    /// What it throws.
    public typealias Failure = LarderClientError

    let client: LarderClient
    let path: Result<JSONPath, LarderClientError>
    let namespace: String
    let mode: ConfigSubscribe.Mode
    let onInterruption: @Sendable (ConfigInterruption) -> Void

    /// Begins an iteration; it subscribes when the first snapshot is asked for.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(follower: SnapshotFollower(self), onInterruption: onInterruption)
    }

    /// One iteration.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let follower: SnapshotFollower
        let onInterruption: @Sendable (ConfigInterruption) -> Void

        /// Waits for the next snapshot; nil once the task is cancelled.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> ConfigSnapshot? {
            while let step = try await follower.next() {
                switch step {
                case .snapshot(let snapshot): return snapshot
                case .interruption(let interruption): onInterruption(interruption)
                }
            }
            return nil
        }
    }
}

/// A stream of snapshots lost its agent for a while; it goes on by itself.
public struct ConfigInterruption: Sendable {
    /// What happened.
    public let error: LarderClientError
    /// How many attempts failed since the last snapshot, this one included.
    public let attempt: Int
    /// How long the stream waits before the next attempt.
    public let delay: Duration
}
