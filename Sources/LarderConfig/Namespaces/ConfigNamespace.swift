import Glibc
package import LarderConfigModel
import LarderConfigSources
import LarderConfigStorage
import LarderEncoding
package import LarderJSON
import LarderPlatform
import LarderUpstream
import Synchronization

/// A namespace: its store, its refreshes, and the tasks that watch and poll its sources.
package final class ConfigNamespace: Sendable {
    private struct State {
        var configuration: NamespaceConfiguration
        /// The remote source. It is kept as long as its settings stay the same, because a connected source has state.
        var source: (any ConfigSource)?
        var files: [FileLayer: FileLayerRefresher]
        /// Watches and polls the sources.
        var sourceTask: Task<Void, Never>?
        /// Whether new settings are being applied. During that time the sources are neither watched nor polled.
        var isApplying = false
        /// The task that runs the commands of ``refresher``, such as refreshes and pushes.
        var refreshTask: Task<Void, Never>?
        /// Makes ``followSchema(_:)`` read the schema again.
        var schemaSignal: AsyncStream<Void>.Continuation?
    }

    package let name: String
    /// The only writer of the namespace's configuration.
    package let store: ConfigStore
    /// Runs refreshes and pushes one after another.
    package let refresher: ConfigRefreshService
    private let environment: NamespaceEnvironment
    private let savedSchema: SavedSchema
    /// Requests read it without a suspension; new settings and the life cycle, which run on other threads, change it.
    private let state: Mutex<State>

    /// The current snapshot.
    package var publication: ConfigPublication { store.publication }

    /// The namespace's settings.
    package var configuration: NamespaceConfiguration { state.withLock { $0.configuration } }

    /// Where the document contains feature flags, and the patterns of secret values; nil if the document contains no flags.
    package var flagSettings: (flags: FlagSettings, secrets: SecretPatterns)? {
        state.withLock { state in state.configuration.flags.map { ($0, state.configuration.secrets) } }
    }

    /// When the first certificate that the settings of the source name expires, in milliseconds since 1970, as of the last
    /// request, and its file; nil without certificates.
    package var certificateExpiry: (time: Int, file: String)? {
        configuration.remote?.certificateExpiry.map { (1000 * $0.seconds, $0.file) }
    }

    private var explainer: ConfigExplainer {
        let (configuration, source) = state.withLock { ($0.configuration, $0.source) }
        return ConfigExplainer(configuration: configuration, source: source, blocking: environment.blocking)
    }

    /// Opens the store with the state from disk, without network access.
    /// - Throws: ``FileError`` if the state directory cannot be used.
    init(_ recovered: RecoveredNamespace, environment: NamespaceEnvironment) async throws(FileError) {
        let configuration = recovered.configuration
        name = configuration.name
        self.environment = environment
        savedSchema = recovered.savedSchema
        let store = try await ConfigStore.open(
            recovered.state,
            storage: NamespaceStorage(
                recovered.archive, blocking: environment.blocking, clock: environment.clock,
                logger: environment.logger),
            rules: configuration.rules(hostIdentity: environment.hostIdentity), limits: configuration.limits,
            status: recovered.status, schema: recovered.schema, lastGood: recovered.lastGood,
            locator: ViolationLocator(configuration: configuration, blocking: environment.blocking),
            clocks: StoreClocks(wallClock: environment.wallClock, clock: environment.clock), logger: environment.logger)
        self.store = store
        store.publication.raise(environment.changes)
        let source = environment.source(configuration.remote, reporting: store.publication)
        refresher = ConfigRefreshService(
            store: store, source: source, clock: environment.clock, durations: environment.durations)
        state = Mutex(
            State(
                configuration: configuration, source: source,
                files: recovered.files.mapValues {
                    FileLayerRefresher($0, store: store, blocking: environment.blocking)
                }))
    }

    // MARK: Life cycle

    /// Starts to watch and poll the sources, unless that has already begun.
    /// - Parameter isReconfigured: whether new settings were applied
    func start(isReconfigured: Bool = false) {
        state.withLock { state in
            if state.isApplying || state.sourceTask != nil { return }
            if state.refreshTask == nil { state.refreshTask = Task { await self.refresher.run() } }
            let (configuration, source, files) = (state.configuration, state.source, state.files)
            state.sourceTask = Task {
                await self.followSources(configuration, source, files, isReconfigured: isReconfigured)
            }
        }
    }

    /// Applies new settings. Readers and subscribers are not interrupted. Callers that wait for a refresh or a push
    /// keep waiting for it.
    func apply(_ configuration: NamespaceConfiguration) async {
        state.withLock { $0.isApplying = true }
        await stopFollowing()
        let previous = self.configuration
        var configuration = configuration
        // The source is kept, and records the expiry of its certificates in the settings that it was created with.
        if configuration.remote == previous.remote { configuration.remote = previous.remote }
        state.withLock { state in
            state.configuration = configuration
            for layer in FileLayer.allCases where !previous.hasSameFiles(layer, as: configuration) {
                state.files[layer] = FileLayerRefresher(
                    configuration.reader(of: layer, lastContent: nil), store: store, blocking: environment.blocking,
                    after: state.files[layer])
            }
        }
        if previous.remote != configuration.remote {
            let source = environment.source(configuration.remote, reporting: publication)
            state.withLock { $0.source = source }
            await refresher.use(source)
        }
        await store.configure(
            configuration.limits, history: configuration.history, status: configuration.initialStatus,
            locator: ViolationLocator(configuration: configuration, blocking: environment.blocking))
        // The new schema applies to the other changes of the settings.
        if previous.schema != configuration.schema || previous.secrets != configuration.secrets {
            await readSchema(configuration)
        }
        await store.follow(configuration.rules(hostIdentity: environment.hostIdentity))
        await store.dropRemote(unlessFrom: configuration.remote?.identity)
        if previous.flags != configuration.flags || previous.secrets != configuration.secrets {
            publication.readAgain()
        }
        state.withLock { $0.isApplying = false }
        start(isReconfigured: true)
    }

    /// Applies the place of the schema in the settings file, which `==` of the settings ignores. Nothing restarts. The
    /// schema is read again, because its problem in the status names the place.
    func applyPlace(of schema: SchemaSettings?) {
        let signal = state.withLock { state -> AsyncStream<Void>.Continuation? in
            if state.configuration.schema?.place == schema?.place { return nil }
            state.configuration.schema?.place = schema?.place
            return state.schemaSignal
        }
        signal?.yield()
    }

    /// Stops the namespace. Everything is on disk when this returns.
    func stop() async {
        await stopFollowing()
        let (refreshTask, files) = state.withLock { ($0.refreshTask, $0.files) }
        for refresher in files.values { await refresher.finish() }
        refreshTask?.cancel()
        await refreshTask?.value
        await store.stop()
    }

    private func stopFollowing() async {
        let task = state.withLock { $0.sourceTask.take() }
        task?.cancel()
        await task?.value
    }

    private func followSources(
        _ configuration: NamespaceConfiguration, _ source: (any ConfigSource)?,
        _ files: [FileLayer: FileLayerRefresher], isReconfigured: Bool
    ) async {
        await store.armExpiry()
        let isHolding = await store.hasRemoteDocument
        // If the experiments of the remote document were left out because they were invalid, the source may have a
        // corrected document now. Therefore the source is polled soon.
        let lacksExperiments = await store.lacksExperiments
        await withTaskGroup { group in
            for (layer, refresher) in files {
                group.addTask { await self.follow(layer, at: configuration.location(of: layer), refresher) }
            }
            if configuration.schema != nil { group.addTask { await self.followSchema(configuration) } }
            if let source, let schedule = configuration.remote?.schedule(hostIdentity: environment.hostIdentity) {
                let poller = SourcePoller(
                    source: source, refresher: refresher, store: store, schedule: schedule, clock: environment.clock,
                    wallClock: environment.wallClock, generator: environment.generator)
                let start =
                    isReconfigured || lacksExperiments
                    ? .reconfigured : PollPlan.start(holding: isHolding, uptime: environment.hostUptime())
                group.addTask { await poller.run(after: start) }
            }
        }
    }

    /// The time after which the copy of the schema is written again if that failed.
    private static let schemaSavePause = Duration.seconds(5)

    /// Reads the schema after each change of its file or of a document to which it refers.
    private func followSchema(_ configuration: NamespaceConfiguration) async {
        guard let schema = configuration.schema else { return }
        var watched: Set = [ExactText(schema.path)]
        while !Task.isCancelled {
            let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            state.withLock { $0.schemaSignal = signal }
            watched = await withTaskGroup(of: Void.self) { [watched] group in
                for path in watched {
                    group.addTask { for await _ in self.environment.watcher.changes(at: path.text) { signal.yield() } }
                }
                // At most one retry is pending. The failures until it begins share the next one.
                let (failures, failure) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
                group.addTask {
                    for await _ in failures {
                        try? await self.environment.clock.sleep(for: Self.schemaSavePause)
                        if self.publication.status.lacksSchemaCopy { signal.yield() }
                    }
                }
                defer { group.cancelAll() }
                // The stream ends when the task is cancelled.
                for await _ in changes {
                    // The place of the schema in the settings may have changed.
                    let paths = await self.readSchema(self.configuration)
                    if paths != watched { return paths }
                    if self.publication.status.lacksSchemaCopy { failure.yield() }
                }
                return watched
            }
        }
    }

    /// Reads the schema. If it cannot be used, the previous schema stays in force, and the status and the log report
    /// the reason.
    /// - Returns: the paths of the documents, including those that cannot be read
    @discardableResult
    private func readSchema(_ configuration: NamespaceConfiguration) async -> Set<ExactText> {
        let saved = savedSchema
        guard let settings = configuration.schema else {
            await environment.blocking.run { saved.remove() }
            await store.use(nil)
            _ = await store.schemaSaved(problem: nil)
            return []
        }
        let file = SchemaFile(settings, secrets: configuration.secrets, maximumBytes: configuration.maximumBytes)
        let latest = await store.latestSchema
        let (reading, schema, problem) = await environment.blocking.run {
            let reading = file.read()
            // The schema in force may be newer than its copy on disk. It is saved even while the file cannot be used.
            let schema = (try? reading.schema.get()) ?? latest.map(file.recompile) ?? saved.load(for: file)
            return (reading, schema, schema.flatMap { saved.save($0) })
        }
        if await store.schemaSaved(problem: problem), let problem { saved.log(problem) }
        switch reading.schema {
        case .success(let schema): await store.use(schema)
        case .failure(let error):
            if let schema, await store.schema?.isSame(as: schema) != true { await store.use(schema) }
            await store.schemaFailed(error.description)
        }
        return reading.paths
    }

    // MARK: File layers

    /// Reads a layer's files after each change. The status and the log report failures.
    private func follow(_ layer: FileLayer, at path: String?, _ files: FileLayerRefresher) async {
        guard let path else {
            // If the settings name no path, this read returns no content, and the layer becomes empty. If files of the
            // previous settings are still being read, the refresher begins this read afterwards.
            _ = try? await files.refresh()
            return
        }
        for await change in environment.watcher.changes(at: path) {
            _ = try? await files.refresh()
            await store.watching(layer.layer, problem: change.watchProblem)
        }
    }

    /// Reads the defaults and the administrator's files now.
    /// - Returns: The revision that contains all these files, and whether it is new; revision 0 if the namespace has no
    ///   file layer.
    /// - Throws: `rejected`, naming the file that cannot be used. Its layer stays as it was.
    package func refreshFiles() async throws(ConfigError) -> CommitOutcome {
        let configuration = configuration
        var whole = CommitOutcome(revision: 0, changed: false, layerChanged: false)
        for layer in FileLayer.allCases where configuration.location(of: layer) != nil {
            let commit = try await refresh(layer)
            whole.revision = max(whole.revision, commit.revision)
            whole.changed = whole.changed || commit.changed
            whole.layerChanged = whole.layerChanged || commit.layerChanged
            whole.hold = commit.hold
        }
        return whole
    }

    private func refresh(_ layer: FileLayer) async throws(ConfigError) -> CommitOutcome {
        func current() -> FileLayerRefresher { state.withLock { $0.files[layer]! } }
        let files = current()
        do throws(ConfigError) {
            return try await files.refresh()
        } catch {
            // If new settings replaced the layer's refresher during the read, repeat the read with the new refresher.
            let next = current()
            guard error.code == .stopped, next !== files else { throw error }
            return try await next.refresh()
        }
    }

    // MARK: Requests

    /// Explains the value at a path. Reads the files of the layers to find the line of each value.
    package func explain(_ path: JSONPath) async -> ConfigExplanation {
        var explanation = await explainer.explain(path.segments, store.provenance(of: path.segments))
        explanation.documentation = await store.schema?.documentation(at: path)
        return explanation
    }

    /// Resolves a change as a commit would, and changes nothing. Its errors are those of the commit, as
    /// ``explained(_:of:)`` returns them.
    package func preview(_ change: LayerChange) async throws(ConfigError) -> ChangePreview {
        do throws(ConfigError) {
            return try await store.preview(change)
        } catch {
            throw await explained(error, of: change)
        }
    }

    /// Adds the file and line of the locked value to an error about a locked path. Returns other errors as they are.
    package func explained(_ error: ConfigError, of change: LayerChange) async -> ConfigError {
        if error.code != .locked { return error }
        let layers = await store.shownLayers
        guard let locked = change.lockedPath(in: layers.rules.locks) else { return error }
        return await explainer.refusal(locked, layers)
    }

    /// Describes the work that is due within a time, as the predicate of a sentence about the namespace ("polls its
    /// source"); nil if the agent can exit without losing anything.
    ///
    /// A source that is watched, connected or polled with long polls always counts as work. Any other source counts if
    /// its poll interval is at most `time`, or if its next poll is due within `time`.
    package func pendingWork(within time: Duration) async -> String? {
        let (configuration, now) = (configuration, environment.wallClock.now)
        switch configuration.remote {
        case nil: break
        case .file(let file): return "watches \(file.path)"
        case .sse, .etcd: return "watches \(configuration.remote?.location ?? "its source")"
        case .http(let http):
            if http.longPoll != nil { return "waits for changes of \(configuration.remote?.location ?? "its source")" }
            if http.interval <= time { return "polls its source" }
            guard let next = publication.status.source?.nextAttemptAt, next - now > time.milliseconds else {
                return "is about to poll its source"
            }
        }
        if await refresher.isAtWork { return "is being refreshed" }
        return await store.pendingWork(within: time)
    }
}

/// A namespace as read from disk at the start of the agent: its last known good state, with the current content of its
/// file layers.
struct RecoveredNamespace: Sendable {
    let configuration: NamespaceConfiguration
    let archive: ConfigArchive
    private(set) var state: RecoveredState
    private(set) var status: NamespaceStatus
    let files: [FileLayer: FileLayerReader]
    /// The layers of the last known good state.
    let lastGood: Layers
    let savedSchema: SavedSchema
    /// The schema; nil for none. If its file cannot be used, this is the saved one.
    private(set) var schema: NamespaceSchema?

    /// Reads the state and the files. Blocks on disk I/O.
    /// - Throws: ``FileError`` if the state directory cannot be used. A layer whose files cannot be read keeps its last
    ///   content, and the status reports the problem.
    init(_ configuration: NamespaceConfiguration, environment: NamespaceEnvironment) throws(FileError) {
        self.configuration = configuration
        let directory = environment.stateDirectory + "/config/" + configuration.name
        do throws(UnsafeDirectory) {
            try UnsafeDirectory.check(directory, followsLink: false)
        } catch {
            throw FileError("open", directory, errno: EPERM, reason: error.description)
        }
        archive = ConfigArchive(
            namespace: configuration.name, epoch: environment.epoch,
            directory: directory, files: environment.files, logger: environment.logger)
        archive.generations.configure(configuration.history)
        let state = try archive.restore()
        self.state = state
        status = configuration.initialStatus
        files = Dictionary(
            uniqueKeysWithValues: FileLayer.allCases.map {
                ($0, configuration.reader(of: $0, lastContent: state.layers[$0]?.document))
            })
        lastGood = state.layers
        savedSchema = SavedSchema(
            namespace: configuration.name, directory: directory, files: environment.files, logger: environment.logger)
        readSchema(now: environment.wallClock.now)
        for reader in files.values { read(reader, now: environment.wallClock.now) }
        if configuration.remote == nil, let remote = state.layers.remote, remote.origin != SourceOrigin.push {
            self.state.layers.dropRemote()
        }
    }

    private mutating func readSchema(now: Int) {
        guard let settings = configuration.schema else { return savedSchema.remove() }
        let file = SchemaFile(settings, secrets: configuration.secrets, maximumBytes: configuration.maximumBytes)
        do throws(SchemaFileError) {
            let schema = try file.read().schema.get()
            if let problem = savedSchema.save(schema) {
                status.storageFailed(.schema, problem, now: now)
                savedSchema.log(problem)
            }
            self.schema = schema
        } catch {
            status.schemaFileProblem = error.description
            schema = savedSchema.load(for: file)
        }
    }

    private mutating func read(_ reader: FileLayerReader, now: Int) {
        let layer = reader.layer
        if reader.path == nil {
            state.layers[layer] = nil
            return
        }
        do throws(FileReadError) {
            let content = try reader.read()
            if state.layers[layer]?.content != content {
                state.layers[layer] = FileDocument(content, updatedAt: now)
            }
        } catch {
            status.filesRead(layer, problem: error.description, now: now)
        }
    }
}
