import Glibc
package import LarderProtocol

/// A stream of the configuration at one path: the current snapshot at once, then each new one as it is published.
///
/// ```swift
/// for try await snapshot in client.config.snapshots(at: "search") {
///     do {
///         try await server.apply(snapshot.decode(default: Search()))
///     } catch {
///         print("the last good value stays in use: \(error)")
///     }
/// }
/// ```
///
/// A value that cannot be decoded is no reason for the loop to end: the next snapshot may have a good one.
///
/// - Only the newest snapshot is buffered. A slow consumer gets the newest snapshot next, with the number of skipped
///   ones in ``LarderSnapshot/skipped``.
/// - Revisions only increase within an epoch. No snapshot is delivered twice.
/// - The stream survives restarts of the agent. If the connection breaks, the stream reconnects after a random delay
///   (``LarderClient/Configuration/backoff``) and resumes at the last revision.
/// - The stream also survives a refusal: the settings do not declare the namespace, or do not let this user read it or
///   connect. It keeps trying, because an administrator can change the settings while the program runs.
/// - The stream ends when the task is cancelled. It throws ``LarderClientError`` only if a retry cannot succeed, for
///   example because the path is malformed or the client is closed.
///
/// These methods return the same stream with another configuration:
///
/// ```swift
/// let snapshots = client.config.snapshots(at: "search")
///     .onInterruption { if !$0.isRepeated { print($0) } }
///     .onResumption { print("connected again") }
/// ```
///
/// ``failOnRefusal()`` makes a stream end with the error of a refusal. A refusal that no handler of the stream and no
/// ``LarderClient/Configuration/onEvent`` receives is reported on standard error, because a namespace that is misspelled
/// would otherwise look like one without snapshots.
///
/// Each iteration starts with a snapshot that is current when the iteration starts. Iterations over the same path,
/// namespace and mode share a subscription of the client, which ends with the last of them. An agent permits 64
/// subscriptions on a connection by default; for further ones, the client makes up to three more connections. A stream
/// ends with `tooManyStreams` if these have no room either. All work runs in the tasks that iterate.
public struct LarderSnapshots: AsyncSequence, Sendable {
    /// A snapshot.
    public typealias Element = LarderSnapshot
    /// The error that ends the stream.
    public typealias Failure = LarderClientError

    /// The content of the event for each snapshot.
    public enum Mode: Sendable, Hashable {
        /// The whole value.
        case snapshot
        /// The changes (RFC 7396), which the client applies to the value that it has.
        case patch
        /// Only the revision. The snapshots have no value.
        case revision

        package var wire: ConfigSubscribe.Mode {
            switch self {
            case .snapshot: .snapshot
            case .patch: .patch
            case .revision: .revision
            }
        }
    }

    /// A step of a stream that a test scripts; see ``init(_:)``.
    public enum Step: Sendable {
        /// A snapshot arrives.
        case snapshot(LarderSnapshot)
        /// The connection to the agent breaks, an attempt to connect fails, or the agent refuses the subscription.
        case interruption(ConfigInterruption)
        /// The stream has a subscription again after an interruption. A snapshot follows only if there is a newer one.
        case resumption
        /// The stream ends with an error.
        case failure(LarderClientError)
    }

    /// Returns the steps of a new iteration. The parameter is whether the stream ends after a refusal.
    private let start: @Sendable (Bool) -> any SnapshotSteps
    package private(set) var handlers: StreamHandlers

    init(_ subscription: SnapshotSubscription) {
        start = { SnapshotFollower(subscription, failsOnRefusal: $0) }
        handlers = StreamHandlers(notesRefusals: subscription.client.configuration.onEvent == nil)
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
    /// - Parameter steps: the steps of the stream. The stream ends with the sequence, or with a failure.
    public init(_ steps: some AsyncSequence<Step, Never> & Sendable) {
        start = { ScriptedSteps(steps, failsOnRefusal: $0) }
        handlers = StreamHandlers()
    }

    /// Returns the stream with a handler that is called each time the stream loses the connection to the agent, cannot
    /// connect, or is refused.
    ///
    /// A failed attempt to connect is reported each time, with the delay before the next attempt. For a log, skip those
    /// whose ``ConfigInterruption/isRepeated`` is true. A refusal (``LarderClientError/isRefusal``) is reported once,
    /// until it has another reason or the stream has resumed.
    /// - Parameter handler: called in the task that iterates, after the handlers that the stream has.
    public func onInterruption(_ handler: @escaping @Sendable (ConfigInterruption) -> Void) -> LarderSnapshots {
        changed { $0.addInterruption(handler) }
    }

    /// Returns the stream with a handler that is called each time the stream has a subscription again after an
    /// interruption. A snapshot follows only if there is a newer one.
    /// - Parameter handler: called in the task that iterates, after the handlers that the stream has.
    public func onResumption(_ handler: @escaping @Sendable () -> Void) -> LarderSnapshots {
        changed { $0.addResumption(handler) }
    }

    /// Returns the stream such that a refusal (``LarderClientError/isRefusal``) ends it with the error.
    ///
    /// ```swift
    /// for try await snapshot in client.config.snapshots(at: "search").failOnRefusal() {
    ///     print(snapshot.revision)
    /// }
    /// ```
    public func failOnRefusal() -> LarderSnapshots { changed { $0.failsOnRefusal = true } }

    private func changed(_ change: (inout StreamHandlers) -> Void) -> LarderSnapshots {
        var copy = self
        change(&copy.handlers)
        return copy
    }

    /// Starts an iteration that also has the interruptions and resumptions. It does not call the handlers.
    package func makeSteps() -> any SnapshotSteps { start(handlers.failsOnRefusal) }

    /// Starts an iteration. It subscribes when the first snapshot is requested.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(steps: makeSteps(), handlers: handlers)
    }

    /// An iteration over the snapshots.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let steps: any SnapshotSteps
        let handlers: StreamHandlers

        /// Waits for the next snapshot. Returns nil once the task is cancelled.
        /// - Throws: an error that a retry cannot resolve, such as `invalidArgument` for a malformed path; with
        ///   ``LarderSnapshots/failOnRefusal()`` also the error of a refusal, such as `remote` with `unknownNamespace`.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> LarderSnapshot? {
            while let step = try await steps.next() {
                switch step {
                case .snapshot(let snapshot): return snapshot
                case .interruption(let interruption):
                    handlers.interrupted(interruption)
                    handlers.note(interruption)
                case .resumption: handlers.resumed()
                case .failure(let error): throw error
                }
            }
            return nil
        }
    }
}

/// The handlers of a stream, and its reaction to a refusal.
package struct StreamHandlers: Sendable {
    private var onInterruption: (@Sendable (ConfigInterruption) -> Void)?
    private var onResumption: (@Sendable () -> Void)?
    /// Whether a refusal ends the stream.
    var failsOnRefusal = false
    /// Whether ``note(_:)`` reports refusals.
    private let notesRefusals: Bool

    init(notesRefusals: Bool = false) { self.notesRefusals = notesRefusals }

    mutating func addInterruption(_ handler: @escaping @Sendable (ConfigInterruption) -> Void) {
        onInterruption = { [onInterruption] interruption in
            onInterruption?(interruption)
            handler(interruption)
        }
    }

    mutating func addResumption(_ handler: @escaping @Sendable () -> Void) {
        onResumption = { [onResumption] in
            onResumption?()
            handler()
        }
    }

    package func interrupted(_ interruption: ConfigInterruption) { onInterruption?(interruption) }

    package func resumed() { onResumption?() }

    /// Reports a refusal on standard error, unless a handler receives it.
    package func note(_ interruption: ConfigInterruption) {
        guard notesRefusals, onInterruption == nil, interruption.error.isRefusal else { return }
        let line = Array("LarderClient: \(interruption.error); the stream keeps trying\n".utf8)
        _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}

/// One iteration over the steps of a stream of snapshots. Used by one task at a time.
package protocol SnapshotSteps: AnyObject {
    /// Waits for the next step. Returns nil at the end of the stream, or once the task is cancelled.
    /// - Throws: an error that a retry cannot resolve, such as `invalidArgument`, or with `failsOnRefusal` a refusal.
    func next() async throws(LarderClientError) -> LarderSnapshots.Step?
}

/// The steps of a stream that was created from a sequence.
private final class ScriptedSteps<Steps: AsyncSequence<LarderSnapshots.Step, Never>>: SnapshotSteps {
    private var iterator: Steps.AsyncIterator
    private let failsOnRefusal: Bool

    init(_ steps: Steps, failsOnRefusal: Bool) {
        iterator = steps.makeAsyncIterator()
        self.failsOnRefusal = failsOnRefusal
    }

    func next() async throws(LarderClientError) -> LarderSnapshots.Step? {
        if Task.isCancelled { return nil }
        let step = await iterator.next(isolation: #isolation)
        if failsOnRefusal, case .interruption(let interruption) = step, interruption.error.isRefusal {
            throw interruption.error
        }
        return step
    }
}

/// Describes an interruption of a stream of snapshots. The stream resumes automatically.
///
/// ```swift
/// let snapshots = client.config.snapshots(at: "search").onInterruption { interruption in
///     if !interruption.isRepeated { print(interruption) }
/// }
/// ```
public struct ConfigInterruption: Sendable, CustomStringConvertible {
    /// The error that interrupted the stream.
    public let error: LarderClientError
    /// The number of failed attempts since the last snapshot, including the one that caused this interruption. The
    /// count also starts again after a subscription that lasted longer than ``LarderBackoff/cap``.
    public let attempt: Int
    /// The delay before the next attempt.
    public let delay: Duration
    /// Whether the attempt before failed with the same error.
    public let isRepeated: Bool

    /// Creates an interruption from its properties, for example for tests.
    public init(
        error: LarderClientError, attempt: Int = 1, delay: Duration = .zero, isRepeated: Bool = false
    ) {
        self.error = error
        self.attempt = attempt
        self.delay = delay
        self.isRepeated = isRepeated
    }

    /// The delay, rounded, and the error, in one line. A refusal is reported once, so its text has no delay.
    public var description: String {
        error.isRefusal
            ? "refused, and tried again until it is allowed: \(error)"
            : "interrupted, next attempt \(delay.attemptText): \(error)"
    }
}
