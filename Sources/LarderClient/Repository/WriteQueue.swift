import LarderJSON
import LarderProtocol

/// The writes that a repository has still to send, and their division into batches. It performs no I/O.
///
/// One batch is in flight at a time. The writes that arrive in the meantime form the next batch.
struct WriteQueue {
    /// The changes that save or delete one model.
    struct Write: Sendable, Equatable {
        /// Identifies the write within the queue.
        let number: Int
        /// The path of the model.
        let path: JSONPath
        let changes: [ConfigApply.Change]
        /// For a deletion, the resolved value of the model before it; nil for other writes.
        var deleted: JSONValue?
    }

    private var waiting: [Write] = []
    /// The writes of a failed batch that are sent one by one, before ``waiting``.
    private var retried: [Write] = []
    private var isSending = false

    /// Adds a write.
    /// - Returns: whether no batch is in flight, so that the caller must begin to send with ``nextBatch()``.
    mutating func add(_ write: Write) -> Bool {
        waiting.append(write)
        defer { isSending = true }
        return !isSending
    }

    /// Removes a write that is not in flight.
    /// - Returns: whether it was in the queue.
    mutating func remove(_ number: Int) -> Bool {
        let count = waiting.count + retried.count
        waiting.removeAll { $0.number == number }
        retried.removeAll { $0.number == number }
        return waiting.count + retried.count < count
    }

    /// Returns the writes to send next and removes them. Call it when the previous batch is complete. An empty result
    /// means that nothing is left to send.
    ///
    /// The agent compares all conditions before it makes the first change of a batch. A batch therefore has at most one
    /// write of each model: the condition of the second one would not see the first one.
    mutating func nextBatch() -> [Write] {
        if !retried.isEmpty { return [retried.removeFirst()] }
        var (batch, portion) = ([Write](), ChangePortion())
        var paths: Set<JSONPath> = []
        var left: [Write] = []
        var isFull = false
        for write in waiting {
            if !isFull, !paths.contains(write.path) {
                isFull = !portion.add(write.changes, byteCount: ChangePortion.byteCount(of: write.changes))
                if !isFull {
                    batch.append(write)
                    paths.insert(write.path)
                    continue
                }
            }
            left.append(write)
        }
        waiting = left
        isSending = !batch.isEmpty
        return batch
    }

    /// Puts the writes of a failed batch back, to be sent one by one.
    mutating func retryOneByOne(_ batch: [Write]) { retried += batch }
}
