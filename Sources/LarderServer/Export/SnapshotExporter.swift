import LarderConfigModel
import LarderJSON
package import LarderConfig
public import LarderPlatform
public import Logging
import Synchronization
import Glibc

/// Plain copies of the current snapshots, `current/NAMESPACE.json` beside the socket, for readers that only know files.
///
/// One task writes all of them. It compares what is published with what it wrote last, so it matters neither how often it
/// is woken nor in which order: the newest is what ends up in the file. Nothing ever waits for it.
public final class SnapshotExporter: Sendable {
    private struct State {
        var publications: [String: ConfigPublication] = [:]
        /// Who may read what: nobody, until somebody says it.
        var rules = AccessRules()
        var written: [String: Position] = [:]
        var problem: String?
        /// The group of the socket when it was last there.
        var group: gid_t?
    }

    /// What a copy was made of.
    private struct Position: Equatable {
        var epoch: String
        var revision: Int
        var mode: UInt32
    }

    private let socket: String
    private let settings: ExportOptions
    private let blocking: BlockingWork
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let state = Mutex(State())
    /// The directory, once it is open. It is held for as long as something is done there: by threads that may wait for the
    /// disk, one at a time.
    private let directory = Mutex<ExportDirectory?>(nil)
    /// Wakes the task that writes: to wake it at each publication would take more time than the publication.
    private let (changes, wakeUps) = Signal.makeStream()

    /// After a write, changes within this time are joined into the next.
    private static let pause = Duration.milliseconds(20)
    private static let pauseAfterFailure = Duration.seconds(30)

    /// Makes it; nothing is written yet.
    /// - Parameters:
    ///   - socket: the path of the agent's socket, whose group the copies get.
    ///   - blocking: where the disk is waited for.
    public init(
        besideSocket socket: String, settings: ExportOptions, blocking: BlockingWork,
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
        await blocking.run { ExportDirectory.clear(directory(besideSocket: socket)) }
    }

    /// Where a namespace's copy is, and why it is missing or old, if it is.
    func copy(of namespace: String) -> (path: String, problem: String?) {
        let path = Self.directory(besideSocket: socket) + "/" + ExportDirectory.name(of: namespace)
        return (path, state.withLock { $0.problem })
    }

    /// Writes the first copies, so that they are there when the agent says that it is ready.
    /// - Parameter rules: who may read them.
    package func start(_ namespaces: [ConfigNamespace], by rules: AccessRules) async {
        state.withLock { $0.rules = rules }
        follow(namespaces)
        _ = await writeDifferences()
    }

    /// Takes other rules of access. Returns once no copy is open to whom they do not let read it, also where there is no room
    /// to write it anew; who may read more can do so a moment later.
    public func use(_ rules: AccessRules) async {
        state.withLock { $0.rules = rules }
        do throws(ExportError) {
            try await blocking.run { () throws(ExportError) in try self.inDirectory { _ throws(ExportError) in } }
        } catch {
            note(problem: error.description)
        }
        changes.raise()
    }

    /// Keeps copies of these namespaces from now on. Those that left the settings end by themselves.
    package func follow(_ namespaces: [ConfigNamespace]) {
        let new = state.withLock { state in
            namespaces.map(\.publication).filter { publication in
                let former = state.publications.updateValue(publication, forKey: publication.namespace)
                return former !== publication
            }
        }
        for publication in new { _ = publication.observe { [changes] in changes.raise() } }
    }

    /// Writes each new snapshot, until the task is cancelled; then what came last is written, too.
    public func run() async {
        for await _ in wakeUps {
            changes.take()
            // A directory that was removed is made again at once; anything else may take its time.
            if await !writeDifferences() {
                while await !writeDifferences(), !Task.isCancelled {
                    try? await clock.sleep(for: Self.pauseAfterFailure)
                }
            }
            try? await clock.sleep(for: Self.pause)
        }
        _ = await writeDifferences()
    }

    /// Brings the files to what is published now.
    /// - Returns: whether all of them are.
    private func writeDifferences() async -> Bool {
        do throws(ExportError) {
            try await blocking.run { () throws(ExportError) in try self.writeDifferencesHere() }
            note(problem: nil)
            return true
        } catch {
            note(problem: error.description)
            return false
        }
    }

    private func writeDifferencesHere() throws(ExportError) {
        try inDirectory { directory throws(ExportError) in
            var failure: ExportError?
            for (name, publication) in self.state.withLock({ $0.publications }) {
                do throws(ExportError) {
                    try self.bringUpToDate(name, publication, directory)
                } catch {
                    failure = error
                }
            }
            if let failure { throw failure }
        }
    }

    /// Does something in the directory, in which no copy is open by then to whom the rules do not let read it.
    private func inDirectory(_ body: (ExportDirectory) throws(ExportError) -> Void) throws(ExportError) {
        try directory.withLock { kept throws(ExportError) in
            do throws(ExportError) {
                let directory: ExportDirectory
                if let open = kept { directory = open } else { directory = try open() }
                kept = directory
                try narrow(directory)
                try body(directory)
            } catch {
                // What was opened may be gone: next time from the start.
                kept = nil
                throw error
            }
        }
    }

    private func narrow(_ directory: ExportDirectory) throws(ExportError) {
        let (written, rules, names) = state.withLock { ($0.written, $0.rules, $0.publications.keys) }
        for name in names {
            let mode = rules.copyMode(settings.mode, of: name, group: directory.group)
            if written[name]?.mode != mode { try directory.narrow(name, to: mode) }
        }
    }

    private func open() throws(ExportError) -> ExportDirectory {
        let directory = try ExportDirectory(
            path: Self.directory(besideSocket: socket), mode: settings.mode, group: socketGroup())
        directory.removeStale(keeping: state.withLock { Set($0.publications.keys) })
        state.withLock { $0.written = [:] }
        return directory
    }

    /// The group of the socket. At a stop the socket is removed before the last copies are written.
    private func socketGroup() throws(ExportError) -> gid_t {
        var status = stat()
        if stat(socket, &status) == 0 {
            let group = status.st_gid
            state.withLock { $0.group = group }
            return group
        }
        let failure = ExportError("find the socket", socket)
        guard let group = state.withLock({ $0.group }) else { throw failure }
        return group
    }

    private func bringUpToDate(
        _ name: String, _ publication: ConfigPublication, _ directory: ExportDirectory
    ) throws(ExportError) {
        let current = publication.current
        let (written, rules) = state.withLock { ($0.written[name], $0.rules) }
        let mode = rules.copyMode(settings.mode, of: name, group: directory.group)
        let position = Position(epoch: publication.epoch, revision: current.snapshot.revision, mode: mode)
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
                let text = current.snapshot.value.withTextBytes { bytes in
                    var text: [UInt8] = []
                    text.reserveCapacity(bytes.count + 1)
                    text.append(contentsOf: bytes)
                    text.append(UInt8(ascii: "\n"))
                    return text
                }
                // What was written here before is another one.
                if written != nil || !directory.holds(text, of: name, mode: mode) {
                    try directory.write(text, of: name, mode: mode)
                }
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
