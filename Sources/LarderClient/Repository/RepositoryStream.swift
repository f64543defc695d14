import LarderJSON

/// A stream of the models of a repository; see ``LarderRepository/changes``. Elements are decoded off the actor of the caller.
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

    private let snapshots: LarderSnapshots
    private let decode: Decode

    init(_ snapshots: LarderSnapshots, _ decode: @escaping Decode) {
        self.snapshots = snapshots
        self.decode = decode
    }

    /// Returns the stream with a handler that is called as for ``LarderSnapshots/onInterruption(_:)``.
    public func onInterruption(_ handler: @escaping @Sendable (ConfigInterruption) -> Void) -> RepositoryStream {
        RepositoryStream(snapshots.onInterruption(handler), decode)
    }

    /// Returns the stream with a handler that is called as for ``LarderSnapshots/onResumption(_:)``.
    public func onResumption(_ handler: @escaping @Sendable () -> Void) -> RepositoryStream {
        RepositoryStream(snapshots.onResumption(handler), decode)
    }

    /// Returns the stream such that a refusal ends it with the error, as ``LarderSnapshots/failOnRefusal()`` does.
    ///
    /// ```swift
    /// for try await all in tickets.changes.failOnRefusal() { print(all.count) }
    /// ```
    public func failOnRefusal() -> RepositoryStream { RepositoryStream(snapshots.failOnRefusal(), decode) }

    /// Starts an iteration. It subscribes when the first element is requested.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(snapshots.makeAsyncIterator(), decode) }

    /// An iteration over the elements.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private var snapshots: LarderSnapshots.AsyncIterator
        private let decode: Decode
        private var hasDelivered = false
        /// The value of the last element.
        private var delivered: JSONValue?

        init(_ snapshots: LarderSnapshots.AsyncIterator, _ decode: @escaping Decode) {
            self.snapshots = snapshots
            self.decode = decode
        }

        /// Waits for the next element. Returns nil once the task is cancelled.
        /// - Throws: `decodingFailed` if a model cannot be decoded; the next call then waits for another value. Also the
        ///   errors of ``LarderSnapshots``.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> Element? {
            while let snapshot = try await snapshots.next(isolation: actor) {
                if hasDelivered, await Self.isEqual(delivered, snapshot.value) { continue }
                (hasDelivered, delivered) = (true, snapshot.value)
                return try await decode(
                    snapshot.value, SnapshotReceiver.Position(revision: snapshot.revision, epoch: snapshot.epoch))
            }
            return nil
        }

        @concurrent
        private static func isEqual(_ left: JSONValue?, _ right: JSONValue?) async -> Bool { left == right }
    }
}
