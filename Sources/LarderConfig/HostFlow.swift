import JSON

/// Reads the administrator's files into the host layer, one reading strictly after the other: an older reading never
/// replaces a newer one.
///
/// It does not wait for the remote source, as it would in the ``ConfigRefresher``. Whoever asks while a reading runs waits
/// for the next one, which begins after the question; all who do share it.
actor HostFlow {
    typealias Outcome = Result<ConfigStore.Commit?, ConfigError>

    private let store: ConfigStore
    private let read: @Sendable () async -> Result<JSONValue, FileReadError>?
    /// The last reading that was asked for.
    private var last: Task<Outcome, Never>?
    /// The same, as long as it has not begun.
    private var next: Task<Outcome, Never>?
    private var isFinished = false

    /// - Parameters:
    ///   - former: the flow that this one takes over from: it begins when that one has ended
    ///   - read: reads the files; nil where the namespace has no host directory, and so an empty layer
    init(
        store: ConfigStore, after former: HostFlow? = nil,
        read: @escaping @Sendable () async -> Result<JSONValue, FileReadError>?
    ) {
        self.store = store
        self.read = read
        last = former.map { former in
            Task {
                await former.finish()
                return .success(nil)
            }
        }
    }

    /// Reads the files again.
    /// - Throws: `rejected` naming the file that cannot be used, or what the store throws; the layer stays as it was.
    ///   `stopped` where another flow has taken over.
    func refresh() async throws(ConfigError) -> ConfigStore.Commit? {
        if isFinished { throw ConfigError(.stopped, "the settings of the host layer changed; try again") }
        if let next { return try await next.value.get() }
        let before = last
        let task = Task {
            _ = await before?.value
            self.next = nil
            return await self.perform()
        }
        next = task
        last = task
        return try await task.value.get()
    }

    /// Takes no more questions, and returns once no reading is under way.
    func finish() async {
        isFinished = true
        _ = await last?.value
    }

    private func perform() async -> Outcome {
        do throws(ConfigError) {
            switch await read() {
            case .none:
                _ = try await store.replaceHost(.emptyObject)
                return .success(nil)
            case .success(let document): return .success(try await store.replaceHost(document))
            case .failure(let error): throw ConfigError(.rejected, error.description)
            }
        } catch {
            if error.code == .rejected { await store.hostFailed(error.message) }
            return .failure(error)
        }
    }
}
