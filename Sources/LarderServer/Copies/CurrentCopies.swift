import JSON
public import LarderConfig
public import LarderUpstream
public import Logging
import Synchronization

#if canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// Plain copies of the current snapshots, `current/NAMESPACE.json` beside the socket, for readers that only know files.
///
/// One task writes all of them. It compares what is published with what it wrote last, so it matters neither how often it
/// is woken nor in which order: the newest is what ends up in the file. Nothing ever waits for it.
public final class CurrentCopies: Sendable {
    private struct State {
        var publications: [String: ConfigPublication] = [:]
        /// The namespaces whose copies only the agent's user may read.
        var isPrivate: Set<String> = []
        var written: [String: Position] = [:]
        var directory: CopyDirectory?
        var problem: String?
    }

    /// What a copy was made of.
    private struct Position: Equatable {
        var epoch: String
        var revision: Int
        var isPrivate: Bool
    }

    private let socket: String
    private let settings: CurrentSettings
    private let blocking: BlockingWork
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let state = Mutex(State())
    private let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    private let newcomers = AsyncStream.makeStream(of: ConfigPublication.self)

    /// After a write, changes within this time are joined into the next.
    private static let pause = Duration.milliseconds(20)
    private static let pauseAfterFailure = Duration.seconds(30)

    /// Makes it; nothing is written yet.
    /// - Parameters:
    ///   - socket: the path of the agent's socket, whose group the copies get.
    ///   - blocking: where the disk is waited for.
    public init(
        besideSocket socket: String, settings: CurrentSettings, blocking: BlockingWork,
        clock: any Clock<Duration> = ContinuousClock(), logger: Logger
    ) {
        self.socket = socket
        self.settings = settings
        self.blocking = blocking
        self.clock = clock
        self.logger = logger
    }

    /// Where the copies are.
    public static func directory(besideSocket socket: String) -> String {
        let directory = socket.lastIndex(of: "/").map { String(socket[..<$0]) } ?? "."
        return directory + "/current"
    }

    /// Removes the copies that an earlier agent made beside a socket, for an agent that makes none.
    public static func clear(besideSocket socket: String, blocking: BlockingWork) async {
        await blocking.run { CopyDirectory.clear(directory(besideSocket: socket)) }
    }

    /// Where a namespace's copy is, and why it is missing or old, if it is.
    func copy(of namespace: String) -> (path: String, problem: String?) {
        let path = Self.directory(besideSocket: socket) + "/" + CopyDirectory.name(of: namespace)
        return (path, state.withLock { $0.problem })
    }

    /// Writes the first copies, so that they are there when the agent says that it is ready.
    public func start(_ namespaces: [ConfigNamespace]) async {
        follow(namespaces)
        _ = await writeDifferences()
    }

    /// From now on, the copies of these namespaces are for the agent's user only: not everybody in the socket's group may
    /// read them. Those that are there are replaced a moment later.
    public func keepPrivate(_ namespaces: Set<String>) {
        state.withLock { $0.isPrivate = namespaces }
        wakes.continuation.yield()
    }

    /// Keeps copies of these namespaces from now on. Those that left the settings end by themselves.
    public func follow(_ namespaces: [ConfigNamespace]) {
        let new = state.withLock { state in
            namespaces.map(\.publication).filter { publication in
                let former = state.publications.updateValue(publication, forKey: publication.namespace)
                return former !== publication
            }
        }
        for publication in new { newcomers.continuation.yield(publication) }
        wakes.continuation.yield()
    }

    /// Writes each new snapshot, until the task is cancelled; then what came last is written, too.
    public func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.writeWhenWoken() }
            for await publication in newcomers.stream {
                group.addTask {
                    for await _ in publication.follow() { self.wakes.continuation.yield() }
                    self.wakes.continuation.yield()
                }
            }
            group.cancelAll()
        }
        _ = await writeDifferences()
    }

    private func writeWhenWoken() async {
        for await _ in wakes.stream {
            // A directory that was removed is made again at once; anything else may take its time.
            if await !writeDifferences() {
                while await !writeDifferences(), !Task.isCancelled {
                    try? await clock.sleep(for: Self.pauseAfterFailure)
                }
            }
            try? await clock.sleep(for: Self.pause)
        }
    }

    /// Brings the files to what is published now.
    /// - Returns: whether all of them are.
    private func writeDifferences() async -> Bool {
        do throws(CopyError) {
            try await blocking.run { () throws(CopyError) in try self.writeDifferencesHere() }
            note(problem: nil)
            return true
        } catch {
            // What was opened may be gone: next time from the start.
            state.withLock { $0.directory = nil }
            note(problem: error.description)
            return false
        }
    }

    private func writeDifferencesHere() throws(CopyError) {
        let (publications, open) = state.withLock { ($0.publications, $0.directory) }
        let directory: CopyDirectory
        if let open { directory = open } else { directory = try self.open(keeping: Set(publications.keys)) }
        var failure: CopyError?
        for (name, publication) in publications {
            do throws(CopyError) {
                try bringUpToDate(name, publication, directory)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }

    private func open(keeping namespaces: Set<String>) throws(CopyError) -> CopyDirectory {
        var status = stat()
        guard stat(socket, &status) == 0 else { throw CopyError("find the socket", socket) }
        let directory = try CopyDirectory(
            path: Self.directory(besideSocket: socket), mode: settings.mode, group: status.st_gid)
        directory.removeStale(keeping: namespaces)
        state.withLock { state in
            state.directory = directory
            state.written = [:]
        }
        return directory
    }

    private func bringUpToDate(
        _ name: String, _ publication: ConfigPublication, _ directory: CopyDirectory
    ) throws(CopyError) {
        let current = publication.current
        let (written, isPrivate) = state.withLock { ($0.written[name], $0.isPrivate.contains(name)) }
        let position = Position(
            epoch: publication.epoch, revision: current.snapshot.revision, isPrivate: isPrivate)
        if current.hasEnded {
            try directory.remove(name)
            state.withLock { state in
                // It may have come back meanwhile, as another one.
                if state.publications[name] === publication { state.publications[name] = nil }
                state.written[name] = nil
            }
        } else if position != written {
            if current.snapshot.revision == 0 {
                try directory.remove(name)
            } else {
                let text = current.snapshot.value.withTextBytes { [UInt8]($0) } + [UInt8(ascii: "\n")]
                try directory.write(text, of: name, isPrivate: isPrivate)
            }
            state.withLock { $0.written[name] = position }
        }
    }

    private func note(problem: String?) {
        let former = state.withLock { state in
            defer { state.problem = problem }
            return state.problem
        }
        guard problem != former else { return }
        if let problem {
            logger.warning(
                "the plain copies of the configuration are missing or old; everything else goes on",
                metadata: ["error": "\(problem)"])
        } else {
            logger.notice("the plain copies of the configuration are up to date again")
        }
    }
}
