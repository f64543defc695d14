public import LarderJSON
public import LarderProtocol

/// A stream of the configuration at one path: the current snapshot at once, then each new one as it is published.
///
/// ```swift
/// for try await snapshot in client.config.snapshots(at: "search") {
///     let search = try snapshot.decode(Search.self)
///     try await server.apply(search)
/// }
/// ```
///
/// - Only the newest snapshot is buffered. A slow consumer gets the newest snapshot next, with the number of skipped
///   ones in ``LarderSnapshot/skipped``.
/// - Revisions only increase within an epoch. No snapshot is delivered twice.
/// - The stream survives restarts of the agent. If the connection breaks, the stream reconnects after a random delay
///   (``LarderClient/Configuration/backoff``) and resumes at the last revision.
/// - The stream ends when the task is cancelled. It throws ``LarderClientError`` if a retry cannot succeed, for example
///   because the settings do not declare the namespace.
///
/// Each iteration has its own subscription, which ends with the iteration. All work runs in the task that iterates.
public struct LarderSnapshots: AsyncSequence, Sendable {
    /// A snapshot.
    public typealias Element = LarderSnapshot
    /// The error that ends the stream.
    public typealias Failure = LarderClientError

    /// A step of a stream that a test scripts; see ``init(_:onInterruption:)``.
    public enum Step: Sendable {
        /// A snapshot arrives.
        case snapshot(LarderSnapshot)
        /// The connection to the agent breaks, or an attempt to connect fails.
        case interruption(ConfigInterruption)
        /// The stream has a subscription again after an interruption. A snapshot follows only if there is a newer one.
        case resumption
        /// The stream ends with an error.
        case failure(LarderClientError)
    }

    /// Returns the steps of a new iteration.
    private let start: @Sendable () -> any SnapshotSteps
    package let onInterruption: @Sendable (ConfigInterruption) -> Void

    init(
        _ subscription: SnapshotSubscription, onInterruption: @escaping @Sendable (ConfigInterruption) -> Void
    ) {
        start = { SnapshotFollower(subscription) }
        self.onInterruption = onInterruption
    }

    /// Creates a stream without an agent, for tests and previews of code that follows snapshots.
    ///
    /// ```swift
    /// let snapshot = LarderSnapshot(value: ["limit": 25], revision: 1, epoch: "test", state: .fresh)
    /// let snapshots = LarderSnapshots(AsyncStream { continuation in
    ///     continuation.yield(.snapshot(snapshot))
    ///     continuation.finish()
    /// })
    /// ```
    /// - Parameters:
    ///   - steps: the steps of the stream. The stream ends with the sequence, or with a failure.
    ///   - onInterruption: called for each interruption. It runs in the task that iterates.
    public init(
        _ steps: some AsyncSequence<Step, Never> & Sendable,
        onInterruption: @escaping @Sendable (ConfigInterruption) -> Void = { _ in }
    ) {
        start = { ScriptedSteps(steps) }
        self.onInterruption = onInterruption
    }

    /// Starts an iteration that also has the interruptions.
    package func makeSteps() -> any SnapshotSteps { start() }

    /// Starts an iteration. It subscribes when the first snapshot is requested.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(steps: start(), onInterruption: onInterruption)
    }

    /// An iteration over the snapshots.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let steps: any SnapshotSteps
        let onInterruption: @Sendable (ConfigInterruption) -> Void

        /// Waits for the next snapshot. Returns nil once the task is cancelled.
        /// - Throws: an error that a retry cannot resolve, such as `remote` with `unknownNamespace`.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> LarderSnapshot? {
            while let step = try await steps.next() {
                switch step {
                case .snapshot(let snapshot): return snapshot
                case .interruption(let interruption): onInterruption(interruption)
                case .resumption: break
                case .failure(let error): throw error
                }
            }
            return nil
        }
    }
}

/// One iteration over the steps of a stream of snapshots. Used by one task at a time.
package protocol SnapshotSteps: AnyObject {
    /// Waits for the next step. Returns nil at the end of the stream, or once the task is cancelled.
    /// - Throws: an error that a retry cannot resolve, such as `remote` with `unknownNamespace`.
    func next() async throws(LarderClientError) -> LarderSnapshots.Step?
}

/// The steps of a stream that was created from a sequence.
private final class ScriptedSteps<Steps: AsyncSequence<LarderSnapshots.Step, Never>>: SnapshotSteps {
    private var iterator: Steps.AsyncIterator

    init(_ steps: Steps) { iterator = steps.makeAsyncIterator() }

    func next() async throws(LarderClientError) -> LarderSnapshots.Step? {
        Task.isCancelled ? nil : await iterator.next(isolation: #isolation)
    }
}

/// Describes an interruption of a stream of snapshots. The stream resumes automatically.
///
/// ```swift
/// let snapshots = client.config.snapshots(at: "search") { interruption in
///     print("\(interruption.error); next attempt in \(interruption.delay)")
/// }
/// ```
public struct ConfigInterruption: Sendable {
    /// The error that interrupted the stream.
    public let error: LarderClientError
    /// The number of failed attempts since the last snapshot, including the one that caused this interruption. The
    /// count also starts again after a subscription that lasted longer than ``Backoff/cap``.
    public let attempt: Int
    /// The delay before the next attempt.
    public let delay: Duration

    /// Creates an interruption from its properties, for example for tests.
    public init(error: LarderClientError, attempt: Int = 1, delay: Duration = .zero) {
        self.error = error
        self.attempt = attempt
        self.delay = delay
    }
}

/// An immutable snapshot of the configuration at one path.
///
/// ```swift
/// let snapshot = try await client.config.snapshot(at: "search")
/// if snapshot.state != .fresh { print("revision \(snapshot.revision) is \(snapshot.state)") }
/// let limit = snapshot.value?["limit"]?.int ?? 10
/// ```
public struct LarderSnapshot: Sendable, Equatable {
    /// The value at the path; nil if it does not exist.
    public let value: JSONValue?
    /// The revision. Within an epoch, revisions only increase.
    public let revision: Int
    /// The ID of the epoch. An epoch begins when the agent's state directory is created, restored from a backup,
    /// copied or moved to another machine. Revisions are comparable only within one epoch.
    public let epoch: String
    /// How up to date the configuration is, for example `fresh` or `stale`.
    public let state: ConfigState
    /// The number of snapshots that were published after the previously delivered one, but were not delivered because
    /// newer ones replaced them.
    public let skipped: Int
    /// The name of the namespace.
    public let namespace: String

    /// Creates a snapshot from its properties, for example for tests.
    public init(
        value: JSONValue?, revision: Int, epoch: String, state: ConfigState, skipped: Int = 0,
        namespace: String = defaultNamespace
    ) {
        self.value = value
        self.revision = revision
        self.epoch = epoch
        self.state = state
        self.skipped = skipped
        self.namespace = namespace
    }
}
