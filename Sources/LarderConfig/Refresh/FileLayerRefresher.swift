import LarderConfigModel
import LarderConfigSources
import LarderJSON

/// Reads the files of one layer, one reading strictly after the other: an older reading never replaces a newer one.
///
/// It does not wait for the remote source, as it would in the ``ConfigRefreshService``. Whoever asks while a reading runs waits
/// for the next one, which begins after the question; all who do share it.
actor FileLayerRefresher {
    typealias Outcome = Result<CommitOutcome, ConfigError>

    private let layer: FileLayer
    private let store: ConfigStore
    private let read: @Sendable () async -> Result<ComposedPatch, FileReadError>
    /// Returns when the last reading that was asked for has ended.
    private var last: (@Sendable () async -> Void)?
    /// That reading, as long as it has not begun.
    private var next: Task<Outcome, Never>?
    private var isFinished = false

    /// - Parameters:
    ///   - former: the flow that this one takes over from: it begins when that one has ended
    ///   - read: reads the files; an empty object where the namespace has none
    init(
        _ layer: FileLayer, store: ConfigStore, after former: FileLayerRefresher? = nil,
        read: @escaping @Sendable () async -> Result<ComposedPatch, FileReadError>
    ) {
        self.layer = layer
        self.store = store
        self.read = read
        if let former { last = { await former.finish() } }
    }

    /// Reads the files again.
    /// - Throws: `rejected` naming the file that cannot be used, or what the store throws; the layer stays as it was.
    ///   `stopped` where another flow has taken over.
    func refresh() async throws(ConfigError) -> CommitOutcome {
        if isFinished { throw ConfigError(.stopped, "the settings of the \(layer) layer changed; try again") }
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

    /// Takes no more questions, and returns once no reading is under way.
    func finish() async {
        isFinished = true
        await last?()
    }

    private func perform() async -> Outcome {
        do throws(ConfigError) {
            switch await read() {
            case .success(let document): return .success(try await store.replaceFiles(layer, with: document))
            case .failure(let error): throw ConfigError(.rejected, error.description)
            }
        } catch {
            if error.code == .rejected { await store.filesFailed(layer, error.message) }
            return .failure(error)
        }
    }
}
