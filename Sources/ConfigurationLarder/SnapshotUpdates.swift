/// The values that a watcher derives from snapshots: the current one first, then each one that differs from the one
/// before it.
///
/// A slow consumer skips snapshots. If a value changes and changes back in the skipped ones, the consumer gets nothing.
struct SnapshotUpdates<Value: Sendable>: AsyncSequence, Sendable {
    typealias Element = Value
    typealias Failure = Never

    let initial: LarderProviderSnapshot
    let later: AsyncStream<LarderProviderSnapshot>
    /// Derives the value.
    let value: @Sendable (LarderProviderSnapshot) -> Value
    let isSame: @Sendable (Value, Value) -> Bool

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(updates: self, initial: initial, later: later.makeAsyncIterator())
    }

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let updates: SnapshotUpdates
        fileprivate var initial: LarderProviderSnapshot?
        fileprivate var later: AsyncStream<LarderProviderSnapshot>.AsyncIterator
        private var last: Value?

        fileprivate init(
            updates: SnapshotUpdates, initial: LarderProviderSnapshot,
            later: AsyncStream<LarderProviderSnapshot>.AsyncIterator
        ) {
            (self.updates, self.initial, self.later) = (updates, initial, later)
        }

        mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Value? {
            if let initial {
                self.initial = nil
                let value = updates.value(initial)
                last = value
                return value
            }
            while let snapshot = await later.next(isolation: actor) {
                let value = updates.value(snapshot)
                if let last, updates.isSame(last, value) { continue }
                last = value
                return value
            }
            return nil
        }
    }
}
