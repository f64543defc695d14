import LarderClientCore
import LarderConfig
import LarderConfigModel
import LarderEventLoop
import LarderImages
import LarderPlatform
import LarderProtocol
import LarderServer
import LarderUpstream
import Logging
import NIOPosix

/// The parts of a real agent, from their start to their stop. A restart replaces them.
final class RunningAgent: Sendable {
    /// The name of the agent in error messages, in the form of an abstract socket.
    static let socketName = "@test-agent"

    let server: EmbeddedServer
    let namespaces: ConfigNamespaces
    private let images: ImageService?
    /// The background work of the image cache; nil without a cache.
    private let imageWork: Task<Void, Never>?
    private let loop: TestEventLoop

    private init(
        _ server: EmbeddedServer, _ namespaces: ConfigNamespaces, _ images: ImageService?, _ loop: TestEventLoop
    ) {
        (self.server, self.namespaces, self.images, self.loop) = (server, namespaces, images, loop)
        imageWork = images.map { images in Task { await images.cache.run() } }
        namespaces.start()
    }

    /// Opens the state in a directory, and serves it.
    static func start(
        _ names: [String], in directory: AgentDirectory, clock: TestClock, images origin: TestImageOrigin?
    ) async throws -> RunningAgent {
        let namespaces = try await ConfigNamespaces(
            names.map { NamespaceConfiguration(name: $0, durability: .relaxed) }, stateDirectory: directory.state,
            threads: SharedThreads.disk, fetcher: SharedThreads.fetcher, hostIdentity: "test agent",
            clock: AgentClock(clock: clock), wallClock: clock.wallClock, logger: logger)
        do {
            let images: ImageService? =
                if let origin { try await imageService(origin, in: directory, clock) } else { nil }
            let context = ServerContext(
                namespaces: namespaces,
                identity: ServerContext.Identity(
                    version: larderVersion, socketPath: socketName, isActivated: false,
                    stateDirectory: directory.state),
                settings: ServerContext.SettingsSource(
                    path: nil, readAt: Timestamp(milliseconds: clock.millisecondsSince1970)),
                limits: ConnectionLimits(), access: accessRules(denying: []), images: images,
                wallClock: clock.wallClock, logger: logger)
            let epollLoop = try SharedThreads.server.get()
            let loop = TestEventLoop(epollLoop, clock)
            let server = try await EmbeddedServer(context: context, loop: loop, epollLoop: epollLoop)
            return RunningAgent(server, namespaces, images, loop)
        } catch {
            await namespaces.stop()
            throw error
        }
    }

    /// Closes all connections, and writes everything to disk.
    func stop() async {
        await server.stop()
        // Removing the namespaces, in contrast to `stop` alone, also ends the streams of their snapshots.
        await namespaces.apply([])
        await namespaces.stop()
        imageWork?.cancel()
        await imageWork?.value
        await images?.cache.stop()
        loop.cancelTimers()
    }

    /// Clients run as the user of the agent, so their rights depend on the rules only if the rules do not exempt the
    /// owner.
    static func accessRules(denying denied: Set<LarderRight>) -> AccessRules {
        var rules = AccessRules()
        rules.trustsOwner = false
        rules.general.others = Rights(Right.allCases.filter { !denied.contains(LarderRight($0)) })
        return rules
    }

    private static let logger = Logger(label: "larder.test-agent") { _ in SwiftLogNoOpLogHandler() }

    // MARK: Images

    private static func imageService(
        _ origin: TestImageOrigin, in directory: AgentDirectory, _ clock: TestClock
    ) async throws(ImageError) -> ImageService {
        let settings = ImageCacheSettings(directory: directory.images, space: SpaceLimits(freeBytes: 0))
        let fetcher = ImageFetcher(configuration: .init(version: larderVersion), origin: origin.server)
        let blocking = BlockingThreadPool(SharedThreads.disk)
        let imageClock = ImageClock(
            now: { clock.millisecondsSince1970 / 1000 }, uptime: { clock.millisecondsSince1970 / 1000 },
            sleep: { try await AgentClock(clock: clock).sleep(for: $0) })
        while true {
            do throws(ImageError) {
                let cache = try await ImageCache.start(
                    settings, fetcher: fetcher, blocking: blocking, clock: imageClock, logger: logger)
                try await cache.opened()
                return ImageService(
                    cache, directory: directory.images, leaseSeconds: 300, blocking: blocking, clock: imageClock)
            } catch {
                // After a restart, a thread may still retain the closed cache, with its lock, until it runs other work.
                guard error.code == .cacheInUse else { throw error }
                await blocking.run {}
                await Task.yield()
            }
        }
    }
}

/// The threads that all test agents of a process share, so that creating an agent starts no thread.
private enum SharedThreads {
    static let disk = {
        let threads = NIOThreadPool(numberOfThreads: 4)
        threads.start()
        return threads
    }()

    static let server = Result { () throws(EpollError) in try EpollLoop(name: "test-agents") }

    /// Fetches nothing, because the namespaces have no source.
    static let fetcher = HTTPFetcher(configuration: .init(version: larderVersion))
}

extension TestClock {
    fileprivate var wallClock: WallClock { WallClock { self.millisecondsSince1970 } }
}
