import JSON
import LarderUpstream
import Logging
import NIOPosix
import Synchronization

/// One namespace at work: its store, its ordered flow, and what keeps it fresh.
public final class ConfigNamespace: Sendable {
    /// What namespaces share: the process-wide means that their sources and archives use.
    public struct Environment: Sendable {
        var epoch: String
        var stateDirectory: String
        var files: any FileSystem
        var blocking: BlockingWork
        var watcher: FileWatcher
        var fetcher: HTTPFetcher
        var hostIdentity: String
        var clock: any Clock<Duration>
        var wallClock: WallClock
        var logger: Logger
    }

    private struct Running {
        var configuration: NamespaceConfiguration
        /// The remote source, for as long as its settings stay: one that keeps a connection knows what came over it.
        var source: (any ConfigSource)?
        var host: HostFlow
        /// What asks the sources.
        var task: Task<Void, Never>?
        /// Whether settings are being taken over, which starts it when it is done.
        var isApplying = false
        /// What runs the refresher's commands.
        var flow: Task<Void, Never>?
    }

    /// The namespace's name.
    public let name: String
    /// The only writer of its configuration.
    public let store: ConfigStore
    private let environment: Environment
    private let running: Mutex<Running>

    /// Where the current snapshot is read.
    public var publication: ConfigPublication { store.publication }

    /// The flow in which refreshes and pushes run in order.
    public let refresher: ConfigRefresher

    /// What the settings say of it.
    public var configuration: NamespaceConfiguration { running.withLock { $0.configuration } }

    /// Reads the last known good state and the administrator's files, and is then ready to be read. The network is not
    /// waited for.
    /// - Throws: ``FileError`` where the state directory cannot be used.
    init(_ configuration: NamespaceConfiguration, environment: Environment) async throws(FileError) {
        let archive = SnapshotArchive(
            namespace: configuration.name, epoch: environment.epoch,
            directory: environment.stateDirectory + "/config/" + configuration.name, files: environment.files,
            logger: environment.logger)
        var restored = try await environment.blocking.run { () throws(FileError) in try archive.restore() }
        var status = NamespaceStatus(source: configuration.source, hostDirectory: configuration.hostDirectory)
        let host = configuration.host(holding: restored.layers.host?.document)
        switch await Self.read(host, environment) {
        case .none: restored.layers.host = nil
        case .success(let document):
            if restored.layers.host?.document != document {
                restored.layers.host = Layers.Host(document: document, updatedAt: environment.wallClock.now)
            }
        case .failure(let error): status.hostRead(problem: error.description, now: environment.wallClock.now)
        }
        if configuration.remote == nil, let remote = restored.layers.remote, remote.origin != pushOrigin {
            restored.layers.dropRemote()
        }
        name = configuration.name
        self.environment = environment
        store = try await ConfigStore.open(
            restored, archive: archive, blocking: environment.blocking, wallClock: environment.wallClock,
            clock: environment.clock, durability: configuration.durability,
            maximumBytes: configuration.maximumBytes, maximumDeletion: configuration.maximumDeletion, status: status,
            logger: environment.logger)
        let source = Self.source(configuration, environment)
        refresher = ConfigRefresher(store: store, source: source, logger: environment.logger)
        running = Mutex(
            Running(configuration: configuration, source: source, host: Self.hostFlow(host, environment, store)))
    }

    // MARK: Life

    /// Starts to keep the namespace fresh, unless that is so already.
    func start() {
        running.withLock { running in
            if running.isApplying || running.task != nil { return }
            if running.flow == nil { running.flow = Task { await self.refresher.run() } }
            let (configuration, source, host) = (running.configuration, running.source, running.host)
            running.task = Task { await self.keepFresh(configuration, source, host) }
        }
    }

    /// Takes over other settings. Readers and subscribers notice nothing but new snapshots, and whoever waits for a refresh
    /// or a push goes on waiting for it.
    func apply(_ configuration: NamespaceConfiguration) async {
        running.withLock { $0.isApplying = true }
        await stopAsking()
        let former = self.configuration
        let hasNewSource = former.remote != configuration.remote
        let hasNewHost =
            former.hostDirectory != configuration.hostDirectory
            || former.isHostDirectoryNamed != configuration.isHostDirectoryNamed
        running.withLock { running in
            running.configuration = configuration
            if hasNewHost {
                running.host = Self.hostFlow(
                    configuration.host(holding: nil), environment, store, after: running.host)
            }
        }
        if hasNewSource {
            let source = Self.source(configuration, environment)
            running.withLock { $0.source = source }
            await refresher.use(source)
        }
        await store.configure(
            durability: configuration.durability, maximumBytes: configuration.maximumBytes,
            maximumDeletion: configuration.maximumDeletion,
            status: NamespaceStatus(source: configuration.source, hostDirectory: configuration.hostDirectory))
        await store.dropRemote(unlessFrom: configuration.source?.location)
        running.withLock { $0.isApplying = false }
        start()
    }

    /// Stops, with everything on disk.
    func stop() async {
        await stopAsking()
        let (flow, host) = running.withLock { ($0.flow, $0.host) }
        await host.finish()
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
        _ configuration: NamespaceConfiguration, _ source: (any ConfigSource)?, _ host: HostFlow
    ) async {
        await store.armExpiry()
        await withTaskGroup { group in
            group.addTask { await self.followHostDirectory(configuration, host) }
            if let source {
                let schedule = configuration.schedule(hostIdentity: environment.hostIdentity)
                let poller = SourcePoller(
                    source: source, refresher: refresher, store: store, schedule: schedule, clock: environment.clock,
                    wallClock: environment.wallClock)
                group.addTask { await poller.run() }
                if let changes = source.changes() { group.addTask { await poller.follow(changes) } }
            }
        }
    }

    // MARK: The host layer

    /// Reads the administrator's files again now.
    /// - Throws: `rejected` naming the file that cannot be used; the layer stays as it was.
    public func refreshHost() async throws(ConfigError) -> ConfigStore.Commit? {
        let host = running.withLock { $0.host }
        do throws(ConfigError) {
            return try await host.refresh()
        } catch {
            // Other settings may have come in between, with a flow of their own.
            let current = running.withLock { $0.host }
            guard error.code == .stopped, current !== host else { throw error }
            return try await current.refresh()
        }
    }

    private func followHostDirectory(_ configuration: NamespaceConfiguration, _ host: HostFlow) async {
        guard let directory = configuration.hostDirectory else {
            // Through the flow, too: a reading of a directory that the settings named before may be under way.
            _ = try? await host.refresh()
            return
        }
        for await _ in environment.watcher.changes(at: directory) {
            do throws(ConfigError) {
                _ = try await host.refresh()
            } catch {
                if Task.isCancelled { return }
                environment.logger.warning(
                    "the host layer cannot be read; its last good content stays",
                    metadata: ["namespace": "\(name)", "error": "\(error.message)"])
            }
        }
    }

    private static func hostFlow(
        _ host: HostDirectory?, _ environment: Environment, _ store: ConfigStore, after former: HostFlow? = nil
    ) -> HostFlow {
        HostFlow(store: store, after: former) { await read(host, environment) }
    }

    private static func read(
        _ host: HostDirectory?, _ environment: Environment
    ) async -> Result<JSONValue, FileReadError>? {
        guard let host else { return nil }
        do throws(FileReadError) {
            return .success(try await environment.blocking.run { () throws(FileReadError) in try host.read() })
        } catch {
            return .failure(error)
        }
    }

    private static func source(
        _ configuration: NamespaceConfiguration, _ environment: Environment
    ) -> (any ConfigSource)? {
        switch configuration.remote {
        case nil: return nil
        case .http(let http): return HTTPSource(fetcher: environment.fetcher, configuration: http)
        case .file(let file):
            return FileSource(configuration: file, watcher: environment.watcher, blocking: environment.blocking)
        }
    }
}

extension NamespaceConfiguration {
    /// The source's kind and location as status and logs show them.
    var source: (kind: String, location: String)? {
        switch remote {
        case nil: nil
        case .http(let http): ("http", http.location)
        case .file(let file): ("file", file.path)
        }
    }

    /// When the source is polled: a file slowly, behind the watch on it.
    func schedule(hostIdentity: String) -> PollSchedule {
        switch remote {
        case .http(let http): PollSchedule(interval: http.interval, seed: hostIdentity + "\u{0}" + http.url)
        case .file, nil: PollSchedule(interval: .seconds(60), seed: hostIdentity)
        }
    }
}

/// The origin of a remote layer that a local process pushed.
let pushOrigin = "push"
