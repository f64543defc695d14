import LarderJSON
import LarderProtocol
import Synchronization

/// Sends the writes of a repository. While one `config.apply` is in flight, further writes wait in a ``WriteQueue`` and
/// are then sent together.
final class ModelWriter: Sendable {
    typealias Write = WriteQueue.Write
    typealias Outcome = Result<ConfigChange, LarderClientError>

    private struct State {
        var queue = WriteQueue()
        /// The callers that wait for the writes with these numbers.
        var callers: [Int: CheckedContinuation<Outcome, Never>] = [:]
        var lastNumber = 0
    }

    private let state = Mutex(State())
    private let calls: RepositoryCalls

    init(_ calls: RepositoryCalls) { self.calls = calls }

    /// Sends changes and waits for the result.
    /// - Parameters:
    ///   - changes: the changes of one model, with their condition.
    ///   - path: the path of the model.
    ///   - deleted: for a deletion, the resolved value before it; otherwise nil.
    /// - Throws: `cancelled` if the task is cancelled before the changes are sent. Afterwards, a cancellation has no
    ///   effect, because the request may contain writes of other tasks.
    func write(
        _ changes: [ConfigApply.Change], at path: JSONPath, deleting deleted: JSONValue? = nil
    ) async throws(LarderClientError) -> ConfigChange {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { (caller: CheckedContinuation<Outcome, Never>) in
                let mustSend = state.withLock { state in
                    state.callers[number] = caller
                    return state.queue.add(Write(number: number, path: path, changes: changes, deleted: deleted))
                }
                // The task may have been cancelled before the write was in the queue.
                if Task.isCancelled { cancel(number) }
                // A separate task sends, because the cancellation of one caller must not affect the others.
                if mustSend { Task { await self.sendBatches() } }
            }
        } onCancel: {
            cancel(number)
        }
        return try outcome.get()
    }

    /// Removes a write from the queue. A write that is in flight or complete is not affected.
    private func cancel(_ number: Int) {
        let caller = state.withLock { state in
            state.queue.remove(number) ? state.callers.removeValue(forKey: number) : nil
        }
        caller?.resume(
            returning: .failure(LarderClientError(.cancelled, "the task was cancelled before the model was sent")))
    }

    private func complete(_ write: Write, _ outcome: Outcome) {
        let caller = state.withLock { $0.callers.removeValue(forKey: write.number) }
        caller?.resume(returning: outcome)
    }

    private func sendBatches() async {
        while true {
            let batch = state.withLock { $0.queue.nextBatch() }
            if batch.isEmpty { return }
            do throws(LarderClientError) {
                let change = try await calls.apply(batch.flatMap(\.changes))
                for write in batch where write.deleted == nil { complete(write, .success(change)) }
                await completeDeletions(batch.filter { $0.deleted != nil }, change)
            } catch {
                if batch.count > 1, error.mayConcernOneChange {
                    let path = error.remoteError?.conflict?.path
                    let failed = state.withLock { $0.queue.divide(batch, without: path) }
                    if let failed { complete(failed, .failure(error)) }
                } else {
                    for write in batch { complete(write, .failure(error)) }
                }
            }
        }
    }

    // MARK: Deletions

    /// Completes deletions whose overrides were removed. Values that still exist, because a lower layer or an override
    /// of the whole collection provides them, are hidden.
    /// - Parameter removal: the change that removed the overrides.
    private func completeDeletions(_ deletions: [Write], _ removal: ConfigChange) async {
        var remaining = deletions
        while !remaining.isEmpty {
            // A dry run of tests is one request that returns the first value that still exists.
            let tests = remaining.map { ConfigApply.Change(.test, at: $0.path, ifValue: .absent) }
            do throws(LarderClientError) {
                _ = try await calls.apply(tests, isDryRun: true)
                for write in remaining { complete(write, .success(removal)) }
                return
            } catch {
                let conflict = error.remoteError?.conflict
                guard let conflict, let value = await value(of: conflict),
                    let index = remaining.firstIndex(where: { $0.path == conflict.path })
                else {
                    for write in remaining { complete(write, .failure(error)) }
                    return
                }
                let write = remaining.remove(at: index)
                do throws(LarderClientError) {
                    let isForced = write.changes.allSatisfy { $0.ifValue == .any }
                    if !isForced {
                        guard try await isExposed(value, conflict, by: removal, of: write) else { throw error }
                    }
                    let hiding = ConfigApply.Change(
                        .set(.null), at: write.path, ifValue: isForced ? .any : .equals(value))
                    complete(write, .success(try await calls.apply([hiding])))
                } catch {
                    complete(write, .failure(error))
                }
            }
        }
    }

    /// The value that a conflict reports. A secret, which the conflict hides, is read from the agent.
    private func value(of conflict: RemoteError.Conflict) async -> JSONValue? {
        guard conflict.isMasked, let path = conflict.path else { return conflict.value }
        return try? await calls.snapshot(at: path).value
    }

    /// Whether a value that exists after a deletion was there before, below the removed overrides. If not, another
    /// client has saved the model since, and its value must not be hidden.
    private func isExposed(
        _ value: JSONValue, _ found: RemoteError.Conflict, by removal: ConfigChange, of write: Write
    ) async throws(LarderClientError) -> Bool {
        let isUnchanged = found.revision == removal.revision && found.epoch == removal.epoch
        if isUnchanged || value == write.deleted { return true }
        return try await !calls.isOverridden(write.path)
    }
}

extension LarderClientError {
    /// Whether a `config.apply` of several changes may have failed because of a single one, so that the others may
    /// succeed without it.
    fileprivate var mayConcernOneChange: Bool {
        guard let remoteError else { return false }
        switch remoteError.code {
        case .conflict, .schemaViolation, .rejected, .invalidParams, .lineTooLong: return true
        // A peer that lacks a right may make none of the changes. Otherwise, one of the paths is locked.
        case .denied: return remoteError.right == nil
        default: return false
        }
    }
}

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
    /// The parts of a failed batch, which are sent before ``waiting``.
    private var retried: [[Write]] = []
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
        let count = count
        waiting.removeAll { $0.number == number }
        for index in retried.indices { retried[index].removeAll { $0.number == number } }
        return self.count < count
    }

    private var count: Int { retried.reduce(waiting.count) { $0 + $1.count } }

    /// Returns the writes to send next and removes them. Call it when the previous batch is complete. An empty result
    /// means that nothing is left to send.
    ///
    /// The agent compares all conditions before it makes the first change of a batch. A batch therefore has at most one
    /// write of each model: the condition of the second one would not see the first one.
    mutating func nextBatch() -> [Write] {
        while !retried.isEmpty {
            let part = retried.removeFirst()
            if !part.isEmpty { return part }
        }
        var (batch, chunk) = ([Write](), ChangeChunk())
        var paths: Set<JSONPath> = []
        var left: [Write] = []
        var isFull = false
        for write in waiting {
            if !isFull, !paths.contains(write.path) {
                isFull = !chunk.add(write.changes, byteCount: ChangeChunk.byteCount(of: write.changes))
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

    /// Puts the writes of a failed batch back in two halves. A write that fails therefore costs few further requests:
    /// two if its path is known, and otherwise twice the binary logarithm of the number of writes. If all writes fail,
    /// the halves keep the requests short.
    /// - Parameter path: the path of the model whose write has failed; nil if it is unknown.
    /// - Returns: the write of that model, which is not put back; nil if the batch has none.
    mutating func divide(_ batch: [Write], without path: JSONPath?) -> Write? {
        var rest = batch
        let failed = rest.firstIndex { $0.path == path }.map { rest.remove(at: $0) }
        let middle = (rest.count + 1) / 2
        retried.insert(contentsOf: [Array(rest[..<middle]), Array(rest[middle...])], at: 0)
        return failed
    }
}

extension Sequence where Element: Sendable {
    /// Runs an operation for each element, up to 1,000 at a time, so that their writes share requests.
    /// - Throws: the first error, after all operations have ended.
    func forEachTogether(
        _ body: @escaping @Sendable (Element) async throws(LarderClientError) -> Void
    ) async throws(LarderClientError) {
        var failure: LarderClientError?
        var iterator = makeIterator()
        while true {
            var chunk: [Element] = []
            while chunk.count < ConfigApply.Parameters.maxChanges, let element = iterator.next() {
                chunk.append(element)
            }
            if chunk.isEmpty { break }
            let chunkFailure = await withTaskGroup(of: LarderClientError?.self) { group in
                for element in chunk {
                    group.addTask {
                        do throws(LarderClientError) {
                            try await body(element)
                            return nil
                        } catch {
                            return error
                        }
                    }
                }
                return await group.reduce(nil) { $0 ?? $1 }
            }
            failure = failure ?? chunkFailure
        }
        if let failure { throw failure }
    }
}
