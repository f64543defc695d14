import LarderJSON

/// A stream of the models of a repository; see ``LarderRepository/changes``. Elements are decoded off the actor of the caller.
///
/// If the agent cannot be reached before the first element, the stream begins with the local copy, if there is one:
/// the last copy that the repository has read, or the file that the agent exports. The handler of
/// ``onInterruption(_:)`` is called before that element. When the agent can be reached, the next element follows if its
/// value differs.
///
/// ```swift
/// let changes = tickets.changes
///     .onInterruption { print("disconnected: \($0.error)") }
///     .onResumption { print("connected again") }
/// ```
public struct RepositoryStream<Element: Sendable>: AsyncSequence, Sendable {
    /// The error that ends the stream.
    public typealias Failure = LarderClientError
    typealias Decode = @Sendable (JSONValue?, SnapshotReceiver.Position) async throws(LarderClientError) -> Element

    /// The value in the local copy, and the position of the copy.
    typealias LocalValue = (value: JSONValue?, position: SnapshotReceiver.Position)

    private let snapshots: LarderSnapshots
    /// Returns the value in the local copy; nil if there is no copy.
    private let local: @Sendable () async -> LocalValue?
    private let decode: Decode

    init(
        _ snapshots: LarderSnapshots, local: @escaping @Sendable () async -> LocalValue?, _ decode: @escaping Decode
    ) {
        self.snapshots = snapshots
        self.local = local
        self.decode = decode
    }

    /// Returns the stream with a handler that is called as for ``LarderSnapshots/onInterruption(_:)``.
    public func onInterruption(_ handler: @escaping @Sendable (ConfigInterruption) -> Void) -> RepositoryStream {
        RepositoryStream(snapshots.onInterruption(handler), local: local, decode)
    }

    /// Returns the stream with a handler that is called as for ``LarderSnapshots/onResumption(_:)``.
    public func onResumption(_ handler: @escaping @Sendable () -> Void) -> RepositoryStream {
        RepositoryStream(snapshots.onResumption(handler), local: local, decode)
    }

    /// Returns the stream such that a refusal ends it with the error, as ``LarderSnapshots/failOnRefusal()`` does.
    ///
    /// ```swift
    /// for try await all in tickets.changes.failOnRefusal() { print(all.count) }
    /// ```
    public func failOnRefusal() -> RepositoryStream {
        RepositoryStream(snapshots.failOnRefusal(), local: local, decode)
    }

    /// Starts an iteration. It subscribes when the first element is requested.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(snapshots, local: local, decode) }

    /// An iteration over the elements.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let steps: any SnapshotSteps
        private let handlers: StreamHandlers
        /// Returns the value in the local copy; nil once the stream has had a value.
        private var local: (@Sendable () async -> LocalValue?)?
        private let decode: Decode
        private var hasDelivered = false
        /// The value of the last element.
        private var delivered: JSONValue?

        init(
            _ snapshots: LarderSnapshots, local: @escaping @Sendable () async -> LocalValue?, _ decode: @escaping Decode
        ) {
            (steps, handlers) = (snapshots.makeSteps(), snapshots.handlers)
            self.local = local
            self.decode = decode
        }

        /// Waits for the next element. Returns nil once the task is cancelled.
        /// - Throws: `decodingFailed` if a model cannot be decoded; the next call then waits for another value. Also the
        ///   errors of ``LarderSnapshots``.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> Element? {
            while let step = try await steps.next() {
                var newest: LocalValue?
                switch step {
                case .snapshot(let snapshot):
                    let position = SnapshotReceiver.Position(revision: snapshot.revision, epoch: snapshot.epoch)
                    newest = (snapshot.value, position)
                case .interruption(let interruption):
                    handlers.interrupted(interruption)
                    handlers.note(interruption)
                    if interruption.error.isOutage, interruption.error.remoteError == nil { newest = await local?() }
                case .resumption: handlers.resumed()
                case .failure(let error): throw error
                }
                guard let newest else { continue }
                local = nil
                if hasDelivered, await Self.isEqual(delivered, newest.value) { continue }
                (hasDelivered, delivered) = (true, newest.value)
                return try await decode(newest.value, newest.position)
            }
            return nil
        }

        @concurrent
        private static func isEqual(_ left: JSONValue?, _ right: JSONValue?) async -> Bool { left == right }
    }
}
