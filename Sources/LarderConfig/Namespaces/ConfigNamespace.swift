package import LarderConfigModel
import LarderConfigSources
import LarderConfigStorage
import LarderEncoding
package import LarderJSON
import LarderPlatform
import LarderUpstream
import Logging
import NIOPosix
import Synchronization

/// One namespace at work: its store, its ordered flow, and what keeps it fresh.
package final class ConfigNamespace: Sendable {
    /// What namespaces share: the process-wide means that their sources and archives use.
    package struct Environment: Sendable {
        var epoch: String
        var stateDirectory: String
        var files: any FileSystem
        var blocking: BlockingWork
        var watcher: FileWatcher
        var fetcher: HTTPFetcher
        var hostIdentity: String
        var clock: any Clock<Duration>
        var wallClock: WallClock
        /// The source of chance for everything that waits before it goes to the network.
        var generator: any RandomNumberGenerator & Sendable
        var logger: Logger

        /// The part that sources use.
        var sources: SourceEnvironment {
            SourceEnvironment(
                fetcher: fetcher, watcher: watcher, blocking: blocking, hostIdentity: hostIdentity, clock: clock,
                generator: generator, logger: logger)
        }
    }

    private struct Running {
        var configuration: NamespaceConfiguration
        /// The remote source, for as long as its settings stay: one that keeps a connection knows what came over it.
        var source: (any ConfigSource)?
        var files: PerFileLayer<FileLayerRefresher>
        /// What asks the sources.
        var task: Task<Void, Never>?
        /// Whether settings are being taken over, which starts it when it is done.
        var isApplying = false
        /// What runs the refresher's commands.
        var flow: Task<Void, Never>?
    }

    /// The namespace's name.
    package let name: String
    /// The only writer of its configuration.
    package let store: ConfigStore
    private let environment: Environment
    private let running: Mutex<Running>

    /// Where the current snapshot is read.
    package var publication: ConfigPublication { store.publication }

    /// The flow in which refreshes and pushes run in order.
    package let refresher: ConfigRefreshService

    /// What the settings say of it.
    package var configuration: NamespaceConfiguration { running.withLock { $0.configuration } }

    /// Finds out where layers have from what they say.
    var explainer: ConfigExplainer {
        let (configuration, source) = running.withLock { ($0.configuration, $0.source) }
        return ConfigExplainer(configuration: configuration, source: source, blocking: environment.blocking)
    }

    /// What the disk has of a namespace at a start: its last known good state, and the files of its layers.
    struct Found: Sendable {
        var configuration: NamespaceConfiguration
        var archive: ConfigArchive
        var restored: RecoveredState
        var status: NamespaceStatus
        var sources: PerFileLayer<FileLayerReader>
    }

    /// Reads the last known good state and the administrator's files. Blocks on the disk.
    /// - Throws: ``FileError`` where the state directory cannot be used.
    static func find(
        _ configuration: NamespaceConfiguration, environment: Environment
    ) throws(FileError) -> Found {
        let archive = ConfigArchive(
            namespace: configuration.name, epoch: environment.epoch,
            directory: environment.stateDirectory + "/config/" + configuration.name, files: environment.files,
            logger: environment.logger)
        archive.generationDirectory.configure(configuration.history)
        var restored = try archive.restore()
        var status = configuration.initialStatus
        let sources = PerFileLayer { configuration.files($0, holding: restored.layers[$0]?.document) }
        for layer in FileLayer.allCases {
            let files = sources[layer]
            if files.path == nil {
                restored.layers[layer] = nil
                continue
            }
            do throws(FileReadError) {
                let content = try files.read()
                if restored.layers[layer]?.content != content {
                    restored.layers[layer] = FileDocument(content, updatedAt: environment.wallClock.now)
                }
            } catch {
                status.filesRead(layer, problem: error.description, now: environment.wallClock.now)
            }
        }
        if configuration.remote == nil, let remote = restored.layers.remote, remote.origin != SourceOrigin.push {
            restored.layers.dropRemote()
        }
        return Found(
            configuration: configuration, archive: archive, restored: restored, status: status, sources: sources)
    }

    /// Is ready to be read at once, with what the disk had. The network is not waited for.
    /// - Throws: ``FileError`` where the state directory cannot be used.
    init(_ found: Found, environment: Environment) async throws(FileError) {
        let (configuration, sources) = (found.configuration, found.sources)
        name = configuration.name
        self.environment = environment
        store = try await ConfigStore.open(
            found.restored,
            storage: NamespaceStorage(
                found.archive, blocking: environment.blocking, clock: environment.clock, logger: environment.logger),
            rules: configuration.rules(hostIdentity: environment.hostIdentity), limits: configuration.limits,
            status: found.status, wallClock: environment.wallClock, clock: environment.clock,
            logger: environment.logger)
        let source = configuration.remote.map(environment.sources.source)
        refresher = ConfigRefreshService(store: store, source: source, wallClock: environment.wallClock)
        let store = store
        running = Mutex(
            Running(
                configuration: configuration, source: source,
                files: PerFileLayer { Self.flow(sources[$0], environment, store) }))
    }

    // MARK: Life

    /// Starts to keep the namespace fresh, unless that is so already.
    func start() { start(isReconfigured: false) }

    private func start(isReconfigured: Bool) {
        running.withLock { running in
            if running.isApplying || running.task != nil { return }
            if running.flow == nil { running.flow = Task { await self.refresher.run() } }
            let (configuration, source, files) = (running.configuration, running.source, running.files)
            running.task = Task { await self.keepFresh(configuration, source, files, isReconfigured: isReconfigured) }
        }
    }

    /// Takes over other settings. Readers and subscribers notice nothing but new snapshots, and whoever waits for a refresh
    /// or a push goes on waiting for it.
    func apply(_ configuration: NamespaceConfiguration) async {
        running.withLock { $0.isApplying = true }
        await stopAsking()
        let former = self.configuration
        let hasNewSource = former.remote != configuration.remote
        running.withLock { running in
            running.configuration = configuration
            for layer in FileLayer.allCases where !former.hasSameFiles(layer, as: configuration) {
                running.files[layer] = Self.flow(
                    configuration.files(layer, holding: nil), environment, store, after: running.files[layer])
            }
        }
        if hasNewSource {
            let source = configuration.remote.map(environment.sources.source)
            running.withLock { $0.source = source }
            await refresher.use(source)
        }
        await store.configure(
            configuration.limits, history: configuration.history, status: configuration.initialStatus)
        await store.follow(configuration.rules(hostIdentity: environment.hostIdentity))
        await store.dropRemote(unlessFrom: configuration.remote?.location)
        running.withLock { $0.isApplying = false }
        start(isReconfigured: true)
    }

    /// Stops, with everything on disk.
    func stop() async {
        await stopAsking()
        let (flow, files) = running.withLock { ($0.flow, $0.files) }
        for layer in FileLayer.allCases { await files[layer].finish() }
        flow?.cancel()
        await flow?.value
        await store.stop()
    }

    private func stopAsking() async {
        let task = running.withLock { running in
            defer { running.task = nil }
            return running.task
        }
        task?.cancel()
        await task?.value
    }

    private func keepFresh(
        _ configuration: NamespaceConfiguration, _ source: (any ConfigSource)?,
        _ files: PerFileLayer<FileLayerRefresher>, isReconfigured: Bool
    ) async {
        await store.armExpiry()
        let isHolding = await store.hasRemoteDocument
        // At a start with other settings, too: a source that is right by now is to be heard soon.
        let lacksExperiments = await store.lacksExperiments
        await withTaskGroup { group in
            for layer in FileLayer.allCases {
                group.addTask { await self.follow(layer, configuration, files[layer]) }
            }
            if let source, let schedule = configuration.remote?.schedule(hostIdentity: environment.hostIdentity) {
                let poller = SourcePoller(
                    source: source, refresher: refresher, store: store, schedule: schedule, clock: environment.clock,
                    wallClock: environment.wallClock, generator: environment.generator)
                let start =
                    isReconfigured || lacksExperiments ? .reconfigured : PollPlan.Event.started(holding: isHolding)
                group.addTask { await poller.run(after: start) }
                group.addTask { await poller.follow(after: start) }
            }
        }
    }

    // MARK: The layers of files

    /// Reads the administrator's files and the defaults again now.
    /// - Returns: the snapshot with everything in it that was read, and whether any was published for it; revision 0 where
    ///   the namespace has no files.
    /// - Throws: `rejected` naming the file that cannot be used; its layer stays as it was.
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
        let flow = running.withLock { $0.files[layer] }
        do throws(ConfigError) {
            return try await flow.refresh()
        } catch {
            // Other settings may have come in between, with a flow of their own.
            let current = running.withLock { $0.files[layer] }
            guard error.code == .stopped, current !== flow else { throw error }
            return try await current.refresh()
        }
    }

    private func follow(_ layer: FileLayer, _ configuration: NamespaceConfiguration, _ flow: FileLayerRefresher) async {
        guard let path = configuration.location(of: layer) else {
            // Through the flow, too: a reading of what the settings named before may be under way.
            _ = try? await flow.refresh()
            return
        }
        let problem = FileWatcher.Problem()
        for await _ in environment.watcher.changes(at: path, reporting: problem) {
            // A failure is in the status and the log already.
            _ = try? await flow.refresh()
            await store.watching(layer.layer, problem: problem.message)
        }
    }

    private static func flow(
        _ files: FileLayerReader, _ environment: Environment, _ store: ConfigStore,
        after former: FileLayerRefresher? = nil
    ) -> FileLayerRefresher {
        FileLayerRefresher(files.layer, store: store, after: former) { await read(files, environment) }
    }

    private static func read(
        _ files: FileLayerReader, _ environment: Environment
    ) async -> Result<ComposedPatch, FileReadError> {
        do throws(FileReadError) {
            return .success(try await environment.blocking.run { () throws(FileReadError) in try files.read() })
        } catch {
            return .failure(error)
        }
    }

    // MARK: Questions and changes

    /// Explains what is at a path. It reads the layers' files to find the lines.
    package func explain(_ path: JSONPath) async -> ConfigExplanation {
        await explainer.explain(path.segments, store.provenance(of: path.segments))
    }

    /// Hands over a value for the override layer, as ``ConfigStore/set(_:to:timeToLive:by:on:then:)``; that a path is locked is
    /// told with the file and line that pin it.
    package func set(
        _ path: JSONPath, to value: JSONValue, timeToLive: Duration?, by peer: Peer?, on executor: (any TaskExecutor)?,
        then completion: @escaping @Sendable (Result<CommitOutcome, ConfigError>) -> Void
    ) -> ChangeHandle {
        store.set(path, to: value, timeToLive: timeToLive, by: peer, on: executor) { result in
            guard case .failure(let error) = result, error.code == .locked else { return completion(result) }
            Task { completion(.failure(await self.refusal(of: value, at: path) ?? error)) }
        }
    }

    private func refusal(of value: JSONValue, at path: JSONPath) async -> ConfigError? {
        let layers = await store.shownLayers
        guard let locked = layers.rules.locks.touched(by: value, at: path.segments) else { return nil }
        return await explainer.refusal(locked, layers)
    }

    /// What the namespace has to do within a time, in words that follow its name; nil where that is nothing, and it would
    /// lose nothing if the agent ended.
    ///
    /// A source that is followed, over a connection or on the disk, always has something: its next change is to be seen.
    /// One that is polled has, if its turn comes within the time, or ever would: an interval that is no longer than that.
    package func pendingWork(within time: Duration) async -> String? {
        let (configuration, now) = (configuration, environment.wallClock.now)
        switch configuration.remote {
        case nil: break
        case .file(let file): return "follows \(file.path)"
        case .sse, .etcd: return "follows \(configuration.remote?.location ?? "its source")"
        case .http(let http):
            if http.longPoll != nil { return "waits for changes of \(configuration.remote?.location ?? "its source")" }
            if http.interval <= time { return "polls its source" }
            guard let next = publication.status.upstream?.nextAttemptAt, next - now > time.milliseconds else {
                return "is about to poll its source"
            }
        }
        if await refresher.isAtWork { return "is being refreshed" }
        return await store.pendingWork(within: time)
    }
}
