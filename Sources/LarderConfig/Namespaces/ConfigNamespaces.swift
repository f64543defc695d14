import LarderConfigSources
import LarderConfigStorage
import LarderJSON
package import LarderUpstream
package import Logging
package import NIOPosix
package import LarderPlatform
import Synchronization

/// All namespaces of the agent, by name. A lookup never suspends.
package final class ConfigNamespaces: Sendable {
    private struct State {
        var namespaces = NamedNamespaces([])
        var unopened: [UnopenedNamespace] = []
        /// The number of snapshots that removed namespaces have published.
        var removedPublications = 0
    }

    private let environment: NamespaceEnvironment
    /// The consumers of ``changes()``.
    private let consumers: ChangeConsumers
    /// Lookups on any thread read it, and the task that applies new settings changes it.
    private let state = Mutex(State())
    /// Holds the lock on the state directory.
    private let stateDirectory: StateDirectory

    /// The epoch of the state directory. Revisions are comparable only within one epoch.
    package var epoch: String { environment.epoch }

    /// Opens the state directory and the last known good state of every namespace, without network access.
    /// - Parameters:
    ///   - threads: the threads for blocking system calls
    ///   - hostIdentity: identifies this host, and determines when the host polls and in which experiments it takes
    ///     part
    ///   - hostID: identifies this host for servers to which it reports its state; nil for none
    ///   - hostUptime: returns the time since the host started, including suspended time
    ///   - generator: provides random delays before network requests
    ///   - files: the file system; nil for the real one, in which symbolic links below the state directory are not
    ///     followed
    /// - Throws: ``FileError``, ``StateDirectory/Locked`` or ``UnsafeDirectory``.
    package init(
        _ configurations: [NamespaceConfiguration], stateDirectory path: String, threads: NIOThreadPool,
        fetcher: HTTPFetcher, hostIdentity: String, hostID: String? = nil,
        clock: any Clock<Duration> = ContinuousClock(),
        wallClock: WallClock = .system, hostUptime: @escaping @Sendable () -> Duration = { Uptime.now },
        generator: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator(),
        files: (any FileSystem)? = nil, logger: Logger
    ) async throws {
        let files = files ?? LocalFileSystem(beneath: path)
        stateDirectory = try StateDirectory(path: path, machine: hostIdentity, files: files)
        if stateDirectory.isMoved {
            logger.notice(
                "the state directory was restored, copied or moved to another machine: its state is kept under a new epoch, and clients that resume get whole snapshots",
                metadata: ["directory": "\(path)", "epoch": "\(stateDirectory.epoch)"])
        }
        let consumers = ChangeConsumers()
        self.consumers = consumers
        let changes = Signal { _ in consumers.wake() }
        let environment = NamespaceEnvironment(
            epoch: stateDirectory.epoch, stateDirectory: path, files: files, blocking: BlockingThreadPool(threads),
            watcher: FileWatcher(clock: clock, logger: logger), fetcher: fetcher, hostIdentity: hostIdentity,
            hostID: hostID, clock: clock, wallClock: wallClock, hostUptime: hostUptime, changes: changes,
            generator: generator,
            logger: logger)
        self.environment = environment
        // Opens several namespaces per thread switch: with a hundred namespaces, a hundred switches would take longer
        // than the reads.
        let opened = try await withThrowingTaskGroup { group in
            for start in stride(from: 0, to: configurations.count, by: Self.openedTogether) {
                let some = configurations[start..<min(start + Self.openedTogether, configurations.count)]
                group.addTask { try await Self.open(Array(some), environment) }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        state.withLock { $0.namespaces = NamedNamespaces(opened) }
    }

    private static let openedTogether = 16

    private static func open(
        _ configurations: [NamespaceConfiguration], _ environment: NamespaceEnvironment
    ) async throws(FileError) -> [ConfigNamespace] {
        let recovered = try await environment.blocking.run { () throws(FileError) in
            try configurations.map { configuration throws(FileError) in
                try RecoveredNamespace(configuration, environment: environment)
            }
        }
        var opened: [ConfigNamespace] = []
        for namespace in recovered { opened.append(try await ConfigNamespace(namespace, environment: environment)) }
        return opened
    }

    /// The namespace with a name; nil if the settings do not declare it.
    package subscript(name: String) -> ConfigNamespace? { state.withLock { $0.namespaces[name] } }

    /// The namespaces of the settings that the last ``apply(_:)`` could not open.
    package var openingProblems: [UnopenedNamespace] { state.withLock { $0.unopened } }

    /// All namespaces, sorted by name.
    package var all: [ConfigNamespace] { state.withLock { $0.namespaces.all } }

    /// All namespaces, sorted by name, and the number of snapshots that removed namespaces have published since the start.
    package var counted: (namespaces: [ConfigNamespace], removedPublications: Int) {
        state.withLock { ($0.namespaces.all, $0.removedPublications) }
    }

    /// The durations of the requests to the sources of all namespaces, including removed ones.
    package var requestDurations: RequestDurations { environment.durations }

    /// Runs a body that may block on a thread for disk work.
    package func onDisk<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await environment.blocking.run(body)
    }

    /// Yields an element now, after each publication of any namespace, and after a namespace starts or ends. Until the
    /// consumer takes an element, later changes are coalesced into it. Each stream has one consumer.
    ///
    /// There is one signal for all namespaces, so that a change costs one atomic operation while all consumers are busy.
    package func changes() -> AsyncStream<Void> {
        let (signal, wakeUps) = (environment.changes, consumers.add())
        return AsyncStream {
            for await _ in wakeUps {
                signal.take()
                return ()
            }
            return nil
        }
    }

    /// Makes ``changes()`` yield an element because of a change outside the namespaces, such as new access rules.
    package func noteChange() { environment.changes.raise() }

    /// Starts to watch and poll the sources of all namespaces.
    package func start() {
        for namespace in all { namespace.start() }
    }

    /// Applies new settings. New namespaces start, removed ones end, and changed ones keep their snapshots. A namespace
    /// that cannot be opened is logged, left out, and listed in ``openingProblems``.
    package func apply(_ configurations: [NamespaceConfiguration]) async {
        let names = Set(configurations.map(\.name))
        for namespace in all where !names.contains(namespace.name) {
            let publishes = namespace.publication.status.publishes
            state.withLock { state in
                state.namespaces = NamedNamespaces(state.namespaces.all.filter { $0 !== namespace })
                state.removedPublications += publishes
            }
            namespace.publication.withdraw()
            await namespace.stop()
            let last = namespace.publication.status.publishes - publishes
            state.withLock { $0.removedPublications += last }
            namespace.publication.end()
        }
        var problems: [UnopenedNamespace] = []
        for configuration in configurations {
            if let namespace = self[configuration.name] {
                if namespace.configuration != configuration {
                    await namespace.apply(configuration)
                } else {
                    namespace.applyPlace(of: configuration.schema)
                }
                continue
            }
            do {
                for namespace in try await Self.open([configuration], environment) {
                    replaceAll { $0 + [namespace] }
                    namespace.start()
                }
            } catch {
                problems.append(UnopenedNamespace(name: configuration.name, problem: "\(error)"))
                environment.logger.error(
                    "namespace \(configuration.name): cannot open the new namespace; it is skipped until the next reload: \(error)",
                    metadata: ["namespace": "\(configuration.name)", "error": "\(error)"])
            }
        }
        state.withLock { $0.unopened = problems }
    }

    private func replaceAll(_ change: ([ConfigNamespace]) -> [ConfigNamespace]) {
        state.withLock { $0.namespaces = NamedNamespaces(change($0.namespaces.all)) }
    }

    /// Stops all namespaces. When this returns, everything is on disk, and another agent can use the state directory.
    package func stop() async {
        await withTaskGroup { group in
            for namespace in all { group.addTask { await namespace.stop() } }
        }
        await environment.watcher.stop()
        stateDirectory.unlock()
    }
}

/// A namespace of the settings that could not be opened.
package struct UnopenedNamespace: Sendable, Hashable {
    package let name: String
    /// Why it could not be opened.
    package let problem: String
}

/// The consumers of one signal.
private final class ChangeConsumers: Sendable {
    private struct State {
        var lastID = 0
        var consumers: [(id: Int, continuation: AsyncStream<Void>.Continuation)] = []
    }

    /// Publishing threads read the consumers, and tasks add and remove them.
    private let state = Mutex(State())

    /// Returns a stream that yields an element now and at each call of ``wake()``. At most one element is buffered.
    func add() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state in
            state.lastID += 1
            state.consumers.append((state.lastID, continuation))
            return state.lastID
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { state in state.consumers.removeAll { $0.id == id } }
        }
        continuation.yield()
        return stream
    }

    func wake() {
        let consumers = state.withLock { $0.consumers }
        for consumer in consumers { consumer.continuation.yield() }
    }
}

/// Namespaces with distinct names.
private struct NamedNamespaces {
    /// Sorted by name.
    let all: [ConfigNamespace]
    private let positions: NameIndex

    init(_ namespaces: [ConfigNamespace]) {
        all = namespaces.sorted { $0.name < $1.name }
        positions = NameIndex(all.map(\.name))
    }

    subscript(name: String) -> ConfigNamespace? { positions.position(of: name).map { all[$0] } }
}
