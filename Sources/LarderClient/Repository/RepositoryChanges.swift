import LarderJSON

extension Repository {
    /// A stream of the models of a repository; see ``Repository/changes``.
    public struct Changes: AsyncSequence, Sendable {
        /// All models, in the order of the document.
        public typealias Element = [Model]
        /// The error that ends the stream.
        public typealias Failure = LarderClientError

        let repository: Repository

        /// Starts an iteration. It subscribes when the first models are requested.
        public func makeAsyncIterator() -> AsyncIterator {
            AsyncIterator(repository, repository.snapshots.makeAsyncIterator())
        }

        /// An iteration over the models.
        public struct AsyncIterator: AsyncIteratorProtocol {
            private let repository: Repository
            private var snapshots: LarderSnapshots.AsyncIterator
            /// The collection that was delivered last; nil before the first one.
            private var delivered: JSONValue?

            init(_ repository: Repository, _ snapshots: LarderSnapshots.AsyncIterator) {
                self.repository = repository
                self.snapshots = snapshots
            }

            /// Waits for the next models. Returns nil once the task is cancelled.
            /// - Throws: `decodingFailed` if the models cannot be decoded; the next call then waits for other models.
            ///   Also an error that a retry cannot resolve, such as `remote` with `unknownNamespace`.
            public mutating func next(
                isolation actor: isolated (any Actor)? = #isolation
            ) async throws(LarderClientError) -> [Model]? {
                while let snapshot = try await snapshots.next(isolation: actor) {
                    let collection = snapshot.value ?? .emptyObject
                    if collection == delivered { continue }
                    delivered = collection
                    return try repository.receive(
                        collection, in: SnapshotReceiver.Position(revision: snapshot.revision, epoch: snapshot.epoch))
                }
                return nil
            }
        }
    }
}
