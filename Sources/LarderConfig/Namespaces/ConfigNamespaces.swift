import LarderConfigSources
package import LarderConfigStorage
package import LarderUpstream
package import Logging
package import NIOPosix
package import LarderPlatform
import Synchronization

/// All namespaces of the agent, by name. Looking one up never waits.
package final class ConfigNamespaces: Sendable {
    private let environment: ConfigNamespace.Environment
    private let byName: Mutex<[String: ConfigNamespace]>
    /// The lock on the state directory, held as long as this lives.
    private let stateDirectory: StateDirectory

    /// The life of the state directory in which all revisions count.
    package var epoch: String { environment.epoch }

    /// Opens the state directory and every namespace's last known good state. Nothing is asked of the network.
    /// - Parameters:
    ///   - threads: where system calls that may wait for the disk are made.
    ///   - hostIdentity: what tells this host from others, for the phase of its polls.
    ///   - generator: the source of chance for everything that waits before it goes to the network.
    ///   - files: the file system; nil for the real one, in which no symbolic link below the state directory is followed
    /// - Throws: ``FileError``, ``StateDirectory/Locked`` or ``UnsafeDirectory``.
    package init(
        _ configurations: [NamespaceConfiguration], stateDirectory path: String, threads: NIOThreadPool,
        fetcher: HTTPFetcher, hostIdentity: String, clock: any Clock<Duration> = ContinuousClock(),
        wallClock: WallClock = .system, generator: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator(),
        files: (any FileSystem)? = nil, logger: Logger
    ) async throws {
        let files = files ?? LocalFileSystem(beneath: path)
        stateDirectory = try StateDirectory(path: path, machine: hostIdentity, files: files)
        if stateDirectory.isMoved {
            logger.notice(
                "the state directory was restored, copied or moved to another machine: its state is kept under a new epoch, and clients that resume get whole snapshots",
                metadata: ["directory": "\(path)", "epoch": "\(stateDirectory.epoch)"])
        }
        let environment = ConfigNamespace.Environment(
            epoch: stateDirectory.epoch, stateDirectory: path, files: files, blocking: BlockingWork(threads),
            watcher: FileWatcher(clock: clock, logger: logger), fetcher: fetcher, hostIdentity: hostIdentity,
            clock: clock, wallClock: wallClock, generator: generator, logger: logger)
        self.environment = environment
        byName = Mutex([:])
        // A few at a time: to change threads for each of a hundred takes longer than to read them.
        let opened = try await withThrowingTaskGroup { group in
            for start in stride(from: 0, to: configurations.count, by: Self.openedTogether) {
                let some = configurations[start..<min(start + Self.openedTogether, configurations.count)]
                group.addTask { try await Self.open(Array(some), environment) }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        byName.withLock { $0 = Dictionary(uniqueKeysWithValues: opened.map { ($0.name, $0) }) }
    }

    private static let openedTogether = 16

    private static func open(
        _ configurations: [NamespaceConfiguration], _ environment: ConfigNamespace.Environment
    ) async throws(FileError) -> [ConfigNamespace] {
        let found = try await environment.blocking.run { () throws(FileError) in
            var found: [ConfigNamespace.Found] = []
            for configuration in configurations {
                found.append(try ConfigNamespace.find(configuration, environment: environment))
            }
            return found
        }
        var opened: [ConfigNamespace] = []
        for one in found { opened.append(try await ConfigNamespace(one, environment: environment)) }
        return opened
    }

    /// The namespace of a name; nil where the settings declare none.
    package subscript(name: String) -> ConfigNamespace? { byName.withLock { $0[name] } }

    /// All of them in the order of their names.
    package var all: [ConfigNamespace] {
        byName.withLock { $0.values.sorted { $0.name < $1.name } }
    }

    /// Starts to keep all of them fresh.
    package func start() {
        for namespace in all { namespace.start() }
    }

    /// Takes over other settings: new namespaces appear, missing ones end, changed ones go on with their snapshots.
    /// Those that did not change are not touched. What cannot be opened is logged and left out.
    package func apply(_ configurations: [NamespaceConfiguration]) async {
        let names = Set(configurations.map(\.name))
        for namespace in all where !names.contains(namespace.name) {
            _ = byName.withLock { $0.removeValue(forKey: namespace.name) }
            namespace.publication.withdraw()
            await namespace.stop()
            namespace.publication.end()
        }
        for configuration in configurations {
            if let namespace = self[configuration.name] {
                if namespace.configuration != configuration { await namespace.apply(configuration) }
                continue
            }
            do {
                for namespace in try await Self.open([configuration], environment) {
                    byName.withLock { $0[namespace.name] = namespace }
                    namespace.start()
                }
            } catch {
                environment.logger.error(
                    "a new namespace cannot be opened and is left out",
                    metadata: ["namespace": "\(configuration.name)", "error": "\(error)"])
            }
        }
    }

    /// Stops all of them, with everything on disk.
    package func stop() async {
        await withTaskGroup { group in
            for namespace in all { group.addTask { await namespace.stop() } }
        }
        await environment.watcher.stop()
    }
}
