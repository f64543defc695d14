import LarderJSON
import LarderProtocol

/// A stream of the configuration at one path: the current snapshot at once, then each new one as it is published.
///
/// ```swift
/// for try await snapshot in client.config.snapshots(at: "search") {
///     let search = try snapshot.decode(Search.self)
///     await server.apply(search)
/// }
/// ```
///
/// - Only the newest snapshot is buffered. A slow consumer gets the newest snapshot next, with the number of skipped
///   ones in ``ConfigSnapshot/skipped``.
/// - Revisions only increase within an epoch. No snapshot is delivered twice.
/// - The stream survives restarts of the agent. If the connection breaks, the stream reconnects after a random delay
///   (``LarderClient/Configuration/backoff``) and resumes at the last revision.
/// - The stream ends when the task is cancelled. It throws ``LarderClientError`` if a retry cannot succeed, for example
///   because the settings do not declare the namespace.
///
/// Each iteration has its own subscription, which ends with the iteration. All work runs in the task that iterates.
public struct ConfigSnapshots: AsyncSequence, Sendable {
    /// A snapshot.
    public typealias Element = ConfigSnapshot
    /// The error that ends the stream.
    public typealias Failure = LarderClientError

    let client: LarderClient
    let path: Result<JSONPath, LarderClientError>
    let namespace: String
    let mode: ConfigSubscribe.Mode
    let isCanary: Bool
    let onInterruption: @Sendable (ConfigInterruption) -> Void

    /// Starts an iteration. It subscribes when the first snapshot is requested.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(follower: SnapshotFollower(self), onInterruption: onInterruption)
    }

    /// An iteration over the snapshots.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let follower: SnapshotFollower
        let onInterruption: @Sendable (ConfigInterruption) -> Void

        /// Waits for the next snapshot. Returns nil once the task is cancelled.
        /// - Throws: an error that a retry cannot resolve, such as `remote` with `unknownNamespace`.
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

/// Describes an interruption of a stream of snapshots. The stream resumes automatically.
public struct ConfigInterruption: Sendable {
    /// The error that interrupted the stream.
    public let error: LarderClientError
    /// The number of failed attempts since the last snapshot, including the one that caused this interruption. The
    /// count also starts again after a subscription that lasted longer than ``Backoff/cap``.
    public let attempt: Int
    /// The delay before the next attempt.
    public let delay: Duration
}
