import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderPlatform
import Synchronization

/// Reads the files of one layer, one read at a time, so that an older read never replaces a newer one.
///
/// It is separate from ``ConfigRefreshService``, so that file reads do not wait for the remote source. Callers that
/// arrive during a read share the next read, which begins after their calls.
actor FileLayerRefresher {
    typealias Outcome = Result<CommitOutcome, ConfigError>
    typealias Reading = Result<ComposedPatch, FileReadError>

    /// Whether ``finish()`` was called. The thread that reads the files checks it.
    private final class Cancellation: Sendable {
        let isRequested = Atomic(false)
    }

    private let layer: FileLayer
    private let store: ConfigStore
    private let read: @Sendable (_ isCancelled: @escaping @Sendable () -> Bool) async -> Reading
    /// A closure that waits until the last requested read has ended or, before the first request, until the refresher
    /// that this one replaces has ended. Nil before the first request if this refresher replaces none.
    private var last: (@Sendable () async -> Void)?
    /// A read that was requested and has not begun; nil for none.
    private var next: Task<Outcome, Never>?
    private let cancellation = Cancellation()

    /// - Parameters:
    ///   - previous: a refresher of the same layer that this one replaces; its last read ends before the first read of
    ///     this one
    ///   - read: returns the content of the files; an error with the code `cancelled` if its parameter returned true
    init(
        _ layer: FileLayer, store: ConfigStore, after previous: FileLayerRefresher? = nil,
        read: @escaping @Sendable (_ isCancelled: @escaping @Sendable () -> Bool) async -> Reading
    ) {
        self.layer = layer
        self.store = store
        self.read = read
        if let previous { last = { await previous.finish() } }
    }

    /// - Parameter previous: a refresher of the same layer that this one replaces
    init(
        _ reader: FileLayerReader, store: ConfigStore, blocking: BlockingThreadPool,
        after previous: FileLayerRefresher? = nil
    ) {
        self.init(reader.layer, store: store, after: previous) { isCancelled in
            do throws(FileReadError) {
                return .success(
                    try await blocking.run { () throws(FileReadError) in try reader.read(unless: isCancelled) })
            } catch {
                return .failure(error)
            }
        }
    }

    /// Reads the files.
    /// - Throws: `rejected`, naming the file that cannot be used; `schemaViolation`; the errors of the store; `stopped`
    ///   if another refresher has replaced this one. The layer stays as it was.
    func refresh() async throws(ConfigError) -> CommitOutcome {
        if isFinished { throw stopped }
        if let next { return try await next.value.get() }
        let before = last
        let task = Task {
            await before?()
            self.next = nil
            return await self.perform()
        }
        next = task
        last = { _ = await task.value }
        return try await task.value.get()
    }

    private var isFinished: Bool { cancellation.isRequested.load(ordering: .relaxed) }

    private var stopped: ConfigError { ConfigError(.stopped, "the settings of the \(layer) layer changed; retry") }

    /// Refuses further calls of ``refresh()`` and abandons the parsing of files. Returns when no read is running.
    func finish() async {
        cancellation.isRequested.store(true, ordering: .relaxed)
        await last?()
    }

    private func perform() async -> Outcome {
        do throws(ConfigError) {
            let cancellation = cancellation
            switch await read({ cancellation.isRequested.load(ordering: .relaxed) }) {
            case .success(let document): return .success(try await store.commit(.files(layer, document)))
            case .failure(let error) where error.code == .cancelled: throw stopped
            case .failure(let error): throw ConfigError(.rejected, error.description)
            }
        } catch {
            if error.code == .rejected { await store.filesFailed(layer, error.message) }
            return .failure(error)
        }
    }
}
