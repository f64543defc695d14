import LarderEventLoop
import LarderConfig
import LarderImages
import LarderPlatform
import LarderServer
import LarderSettings
import LarderUpstream
import LarderProtocol
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import LarderSystemd
import UnixSignals
import Glibc

/// Creates the parts of the agent, runs them, and stops them in the reverse order.
struct Agent {
    let plan: AgentPlan
    let sockets: [ActivatedSocket]
    /// The SIGHUP signals that arrive.
    let hangups: UnixSignalsSequence
    private let logger = Logger(label: "larderd")

    private static let networkThreads = 1
    /// There are several disk threads, so that one can write journals while the others perform background writes, and
    /// read and write images.
    private static let diskThreads = 4
    /// Separate from the disk threads, because a lookup blocks for seconds if the name servers do not respond.
    private static let resolverThreads = 4
    private static let clientThreads = min(System.coreCount, 4)
    /// The number of threads of the whole process, including those of Swift tasks, signals, timers, file watching,
    /// the watchdog, notifications and ``ThreadGuard``.
    static let maxThreads =
        networkThreads + diskThreads + resolverThreads + clientThreads + System.coreCount + 6

    /// Serves until SIGTERM or SIGINT, then shuts down cleanly.
    func run() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: Self.networkThreads)
        let threads = NIOThreadPool(numberOfThreads: Self.diskThreads)
        threads.start()
        // The resolver pool is not shut down, because its shutdown would wait for pending lookups. It ends with the
        // process.
        let resolverPool = NIOThreadPool(numberOfThreads: Self.resolverThreads)
        resolverPool.start()
        let fetcher = HTTPFetcher(
            configuration: .init(version: larderVersion), resolver: SystemResolver(resolverPool), eventLoopGroup: group)
        let images = ImageFetcher(
            configuration: .init(version: larderVersion), resolver: SystemResolver(resolverPool), eventLoopGroup: group)
        do {
            try await serve(group, threads, fetcher, images)
        } catch {
            await shutDown(group, threads, fetcher, images)
            throw error
        }
        await shutDown(group, threads, fetcher, images)
    }

    private func shutDown(
        _ group: MultiThreadedEventLoopGroup, _ threads: NIOThreadPool, _ fetcher: HTTPFetcher, _ images: ImageFetcher
    ) async {
        await fetcher.shutdown()
        await images.shutdown()
        do {
            try await group.shutdownGracefully()
        } catch {
            logger.warning("the network event loop did not shut down cleanly", metadata: ["error": "\(error)"])
        }
        await threads.finish()
    }

    private func serve(
        _ group: MultiThreadedEventLoopGroup, _ threads: NIOThreadPool, _ fetcher: HTTPFetcher,
        _ imageFetcher: ImageFetcher
    ) async throws {
        let socket = try listeningSocket()
        let namespaces: ConfigNamespaces
        do {
            namespaces = try await ConfigNamespaces(
                plan.namespaces, stateDirectory: plan.stateDirectory, threads: threads, fetcher: fetcher,
                hostIdentity: Self.hostIdentity(), hostID: HostID.text, logger: logger)
        } catch {
            socket.remove()
            throw error
        }
        let (images, imageProblem) = await imagesOrProblem(imageFetcher, BlockingThreadPool(threads))
        let copies = await copies(of: namespaces, beside: socket, BlockingThreadPool(threads))
        let rules = plan.settings.accessRules(isForHost: isForHost(socket), logger: logger)
        await copies?.start(by: rules)
        let context = ServerContext(
            namespaces: namespaces,
            identity: ServerContext.Identity(
                version: larderVersion, socketPath: socket.path, isActivated: socket.isActivated,
                stateDirectory: plan.stateDirectory),
            settings: plan.settingsSource, limits: plan.limits, access: rules, copies: copies, images: images,
            imageProblem: imageProblem, logger: logger)
        plan.warnOfDescriptorLimit(logger)
        // The event loops of the clients are not stopped. They end with the process.
        let loops = try (1...Self.clientThreads).map { try EpollLoop(name: "clients-\($0)") }
        let server = AgentServer(context: context, socket: socket, loops: loops)
        let reporter = Reporter(
            context, server, fetcher: fetcher, blocking: BlockingThreadPool(threads), hostIdentity: Self.hostIdentity()
        ) { ReportedHost(name: HostFacts.systemName, id: HostID.text) }
        await reporter.use(plan.settings.report)
        let status = ServiceStatus(server: server)
        status.follow(namespaces.all.map(\.publication))
        if let problem = plan.settingsProblem {
            status.note(.init(problem: problem, readAt: plan.settingsReadAt))
        }
        // Services stop in the reverse order of this list. The service that writes the plain copies stops last, so that
        // the copies contain the final snapshots. The image cache stops after the server, because clients hold leases
        // on images until the server has stopped.
        var services: [any Service] = copies.map { [CopyService(copies: $0)] } ?? []
        services += images.map { [ImageCacheService(images: $0)] } ?? []
        services += [
            MemoryService(),
            ServingService(server: server, namespaces: namespaces, status: status),
            ReloadService(
                context: context, server: server, plan: plan, status: status, isForHost: isForHost(socket),
                reporter: reporter, hangups: hangups, blocking: BlockingThreadPool(threads), logger: logger),
            ReportingService(reporter: reporter),
        ]
        if ServiceNotifier.isAvailable { services.append(StatusService(status: status)) }
        if let idleExit = idleExit(server, namespaces, images, reporter) { services.append(idleExit) }
        if let interval = Watchdog.interval {
            services.append(
                WatchdogService(
                    interval: interval, eventLoops: loops + Array(group.makeIterator()), namespaces: namespaces,
                    images: images,
                    logger: logger))
        }
        #if DEBUG
            services.append(
                DeadlockSwitch(namespaces: namespaces, signals: await UnixSignalsSequence(trapping: .sigusr2)))
        #endif
        // If one service returns, the whole agent shuts down. `ThreadGuard` handles SIGTERM and SIGINT.
        let run = ServiceGroup(
            configuration: .init(
                services: services.map { .init(service: $0, successTerminationBehavior: .gracefullyShutdownGroup) },
                logger: Logger(label: "larderd.services") { _ in
                    SwiftLogNoOpLogHandler()
                }))
        let stopping = group.next()
        try ThreadGuard(
            .init(
                // Starting a task may block the calling thread if no thread can be started for tasks.
                stop: { stopping.execute { Task { await run.triggerGracefulShutdown() } } },
                threadProblem: { problem in
                    context.threadProblem = problem
                    if problem == nil { images?.threadsAreAvailable() }
                }), logger
        ).start()
        try await run.run()
        await namespaces.stop()
        logger.info("stopped")
    }

    private func idleExit(
        _ server: AgentServer, _ namespaces: ConfigNamespaces, _ images: ImageService?, _ reporter: Reporter
    ) -> IdleExit? {
        guard let minutes = plan.settings.service.idleExitMinutes else { return nil }
        guard !sockets.isEmpty else {
            logger.warning(
                """
                service.idleExitMinutes has no effect: systemd did not pass the socket, so it would not start the agent \
                again; enable larder.socket, or remove the setting
                """)
            return nil
        }
        return IdleExit(
            idleTimeout: .seconds(60 * minutes), idleTime: { await server.idleTime() },
            work: { within in
                for namespace in namespaces.all {
                    if let work = await namespace.pendingWork(within: within) {
                        return "namespace \(namespace.name) \(work)"
                    }
                }
                if await reporter.isReporting { return "the host reports to a receiver" }
                return await images?.cache.isAtWork == true ? "images are being downloaded or removed" : nil
            }, stopAccepting: { await server.stopAcceptingIfIdle() }, clock: ContinuousClock(), logger: logger)
    }

    /// Opens the image cache. If its directory cannot be used, the agent runs without images, because configuration
    /// must be served and images can be fetched again.
    private func imagesOrProblem(
        _ fetcher: ImageFetcher, _ blocking: BlockingThreadPool
    ) async -> (ImageService?, problem: String?) {
        let problem: String
        do { return (try await imageService(fetcher, blocking), nil) } catch { problem = "\(error)" }
        logger.error(
            "the image cache cannot be used; the agent runs without it until the next restart",
            metadata: ["error": "\(problem)"])
        return (nil, problem)
    }

    /// Starts the image cache, which reads its index in the background: with a million images that takes seconds, and
    /// configuration must be served at once. Returns nil if the settings disable the cache.
    /// - Throws: an error if the directory cannot be used, another agent uses it, or a newer version wrote its index. A
    ///   damaged index is not an error.
    private func imageService(_ fetcher: ImageFetcher, _ blocking: BlockingThreadPool) async throws -> ImageService? {
        guard let directory = plan.imageDirectory else { return nil }
        // Before the check, nothing is created below a directory that another user could replace.
        try UnsafeDirectory.check(splitPath(directory).directory)
        try Self.makeDirectory(above: directory)
        try UnsafeDirectory.check(splitPath(directory).directory)
        try UnsafeDirectory.check(directory, followsLink: false)
        let settings = try plan.settings.images.cacheSettings(directory: directory, logger: logger)
        let cache = try await ImageCache.start(settings, fetcher: fetcher, blocking: blocking, logger: logger)
        return ImageService(
            cache, directory: directory, leaseSeconds: plan.settings.images.leaseSeconds, blocking: blocking)
    }

    /// Creates the cache directory. The mode of the directory lets clients in the agent's group reach the images. The
    /// image cache creates everything below that directory.
    private static func makeDirectory(above path: String) throws {
        let cache = splitPath(path).directory
        try LocalFileSystem().createDirectory(splitPath(cache).directory)
        guard uninterrupted({ mkdir(cache, 0o750) }) == 0 || errno == EEXIST else {
            throw FileError("make directory", cache, errno: errno)
        }
    }

    private func copies(
        of namespaces: ConfigNamespaces, beside socket: ListeningSocket, _ blocking: BlockingThreadPool
    ) async -> SnapshotExporter? {
        guard socket.directory != nil else {
            logger.info("no plain copies of the configuration are written, because an abstract socket has no directory")
            return nil
        }
        let settings = plan.settings.current
        guard settings.isEnabled else {
            await SnapshotExporter.clear(nextToSocket: socket.path, blocking: blocking)
            return nil
        }
        return SnapshotExporter(
            of: namespaces, nextToSocket: socket.path, settings: settings, blocking: blocking, logger: logger)
    }

    private func listeningSocket() throws -> ListeningSocket {
        if sockets.count > 1 {
            throw AgentError(
                """
                systemd passed \(sockets.count) sockets, but the agent listens on one only; remove all but one \
                ListenStream= from larder.socket
                """)
        }
        if let activated = sockets.first {
            let socket = ListeningSocket(activated: activated.descriptor)
            if let directory = socket.directory { try UnsafeDirectory.check(directory, allowsSticky: true) }
            return socket
        }
        let path = try plan.socketPath.get()
        try LocalFileSystem().createDirectory(splitPath(path).directory)
        // The socket may be in a sticky directory such as /tmp, where other users cannot replace it.
        try UnsafeDirectory.check(splitPath(path).directory, allowsSticky: true)
        return try ListeningSocket(path: path, mode: plan.settings.socket.mode, group: plan.settings.socket.group)
    }

    /// Whether the agent serves the whole host: root runs it, or the system's service manager passed a socket that is
    /// not below a user's runtime directory (systemd.unit(5), `%t`).
    private func isForHost(_ socket: ListeningSocket) -> Bool {
        geteuid() == 0 || socket.isActivated && socket.path.hasPrefix("/run/") && !socket.path.hasPrefix("/run/user/")
    }

    /// Identifies this host: the machine ID (machine-id(5)), or the host name if there is no machine ID.
    private static func hostIdentity() -> String {
        if let bytes = try? LocalFileSystem().read("/etc/machine-id"), bytes.count > 30 {
            return String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
        }
        var name = [CChar](repeating: 0, count: 256)
        gethostname(&name, name.count - 1)
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
