import LarderClientCore
import Synchronization

/// Gets the first snapshot of a provider.
struct SnapshotStart: Sendable {
    let client: LarderClient
    let namespace: String
    let onInterruption: @Sendable (LarderClientError) -> Void

    /// Why there is no snapshot.
    enum Failure: Error {
        /// The limit has passed. The last error is nil if no attempt has failed.
        case timeout(last: LarderClientError?)
        /// Retries cannot succeed, or are not wanted.
        case failed(LarderClientError)
    }

    /// Waits for the current snapshot.
    /// - Parameters:
    ///   - limit: the maximum time
    ///   - retrying: whether to try again after errors that a retry may resolve
    func snapshot(within limit: Duration, retrying: Bool) async throws(Failure) -> MappedSnapshot {
        let lastError = LastError()
        let result = await withTaskGroup(of: Result<MappedSnapshot, LarderClientError>?.self) { group in
            group.addTask { await open(retrying: retrying, lastError) }
            group.addTask {
                try? await client.configuration.clock.sleep(for: limit)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first
        }
        if result == nil, Task.isCancelled { throw .failed(LarderClientError(.cancelled, "the task was cancelled")) }
        switch result {
        case .success(let snapshot): return snapshot
        case .failure(let error): throw .failed(error)
        case nil: throw .timeout(last: lastError.value.withLock { $0 })
        }
    }

    /// Returns nil once the task is cancelled.
    private func open(
        retrying: Bool, _ lastError: LastError
    ) async -> Result<MappedSnapshot, LarderClientError>? {
        do throws(LarderClientError) {
            if !retrying { return .success(try await client.config.snapshot(namespace: namespace, mapped: true)) }
            let snapshots = client.config.mappedSnapshots(namespace: namespace) { interruption in
                lastError.value.withLock { $0 = interruption.error }
                onInterruption(interruption.error)
            }
            var iterator = snapshots.makeAsyncIterator()
            return try await iterator.next().map { .success($0) }
        } catch {
            return .failure(error)
        }
    }

    private final class LastError: Sendable {
        let value = Mutex<LarderClientError?>(nil)
    }
}
