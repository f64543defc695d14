import Glibc
package import LarderConfig
import LarderConfigModel
import LarderJSON
package import LarderPlatform
package import Logging
import Synchronization

/// Writes plain copies of the current snapshots to `current/NAMESPACE.json` next to the socket, for programs that can
/// only read files.
///
/// One task writes all copies after changes of any namespace. It compares the current snapshots with those that it
/// wrote last, so one write may cover several changes. Publication does not wait for the copies.
package final class SnapshotExporter: Sendable {
    private struct State {
        /// The access rules. Until they are set, only the agent's user may read the copies.
        var rules = AccessRules()
        var written: [String: Position] = [:]
        var problem: String?
        /// The group of the socket file when the exporter last found it; nil before that.
        var group: gid_t?
    }

    /// The snapshot that a copy was written from, and the permission bits of the copy.
    private struct Position: Equatable {
        var epoch: String
        var revision: Int
        var mode: UInt32
    }

    private let namespaces: ConfigNamespaces
    private let socket: String
    private let settings: ExportOptions
    private let blocking: BlockingThreadPool
    private let clock: any Clock<Duration>
    private let logger: Logger
    /// Event loops read the problem, and tasks and threads for disk work note what they have written.
    private let state = Mutex(State())
    /// The open directory; nil before it is opened and after an error. The lock is held during disk work.
    private let directory = Mutex<ExportDirectory?>(nil)

    /// The pause after each write. Changes during the pause are combined into the next write.
    private static let pause = Duration.milliseconds(20)
    private static let pauseAfterFailure = Duration.seconds(30)

    /// Creates an exporter. It writes nothing before ``start(by:)``.
    /// - Parameters:
    ///   - namespaces: the namespaces whose snapshots are exported
    ///   - socket: the path of the socket, whose group the copies get
    ///   - blocking: the threads for disk work
    package init(
        of namespaces: ConfigNamespaces, nextToSocket socket: String, settings: ExportOptions,
        blocking: BlockingThreadPool, clock: any Clock<Duration> = ContinuousClock(), logger: Logger
    ) {
        self.namespaces = namespaces
        self.socket = socket
        self.settings = settings
        self.blocking = blocking
        self.clock = clock
        self.logger = logger
    }

    /// The path of the directory of the copies.
    package static func directory(nextToSocket socket: String) -> String {
        let directory = socket.lastIndex(of: "/").map { String(socket[..<$0]) } ?? "."
        return directory + "/current"
    }

    /// Removes copies that an earlier agent wrote next to a socket. Used by an agent that writes none.
    package static func clear(nextToSocket socket: String, blocking: BlockingThreadPool) async {
        await blocking.run { ExportDirectory.clear(directory(nextToSocket: socket)) }
    }

    /// The path of a namespace's copy, and the reason why copies are missing or outdated. `problem` is nil if all
    /// copies are up to date.
    func copy(of namespace: String) -> (path: String, problem: String?) {
        let path = Self.directory(nextToSocket: socket) + "/" + ExportDirectory.name(of: namespace)
        return (path, state.withLock { $0.problem })
    }

    /// Writes the first copies. The agent reports readiness afterwards.
    /// - Parameter rules: the rules that decide who may read the copies
    package func start(by rules: AccessRules) async {
        state.withLock { $0.rules = rules }
        _ = await writeDifferences()
    }

    /// Applies new access rules. When this returns, no user can read the copy of a namespace that the rules do not let
    /// the user read, even if the disk is full. Permissions that the new rules add take effect with the next write.
    package func use(_ rules: AccessRules) async {
        state.withLock { $0.rules = rules }
        do throws(ServerError) {
            try await blocking.run { () throws(ServerError) in try self.inDirectory { _ throws(ServerError) in } }
        } catch {
            note(problem: error.description)
        }
        namespaces.noteChange()
    }

    /// Writes new snapshots until the task is cancelled, then writes the last ones.
    package func run() async {
        for await _ in namespaces.changes() {
            // After a failure the first retry follows at once: if the directory was removed, the retry creates it
            // again. Each further retry follows after a pause.
            if await !writeDifferences() {
                while await !writeDifferences(), !Task.isCancelled {
                    try? await clock.sleep(for: Self.pauseAfterFailure)
                }
            }
            try? await clock.sleep(for: Self.pause)
        }
        _ = await writeDifferences()
    }

    /// Writes the copies that differ from the current snapshots.
    /// - Returns: false if a copy could not be written
    private func writeDifferences() async -> Bool {
        do throws(ServerError) {
            try await blocking.run { () throws(ServerError) in try self.writeDifferencesBlocking() }
            note(problem: nil)
            return true
        } catch {
            note(problem: error.description)
            return false
        }
    }

    private func writeDifferencesBlocking() throws(ServerError) {
        try inDirectory { directory throws(ServerError) in
            var failure: ServerError?
            let publications = self.namespaces.all.map(\.publication)
            for publication in publications {
                do throws(ServerError) {
                    try self.updateCopy(publication, directory)
                } catch {
                    failure = error
                }
            }
            for name in self.exportedNames.subtracting(publications.map(\.namespace)) {
                try directory.remove(name)
                self.state.withLock { $0.written[name] = nil }
            }
            if let failure { throw failure }
        }
    }

    /// Runs `body` with the directory, after restricting the modes of all copies to the access rules.
    private func inDirectory(_ body: (ExportDirectory) throws(ServerError) -> Void) throws(ServerError) {
        try directory.withLock { kept throws(ServerError) in
            do throws(ServerError) {
                let directory: ExportDirectory
                if let open = kept { directory = open } else { directory = try open() }
                kept = directory
                try restrictMode(directory)
                try body(directory)
            } catch {
                // The directory may have been removed. The next attempt opens it again.
                kept = nil
                throw error
            }
        }
    }

    private func restrictMode(_ directory: ExportDirectory) throws(ServerError) {
        let (written, rules) = state.withLock { ($0.written, $0.rules) }
        // Includes removed namespaces, whose copies exist until the next write.
        for name in exportedNames.union(namespaces.all.map(\.name)) {
            let mode = rules.copyMode(settings.mode, of: name, group: directory.group)
            if written[name]?.mode != mode { try directory.restrictMode(name, to: mode) }
        }
    }

    private func open() throws(ServerError) -> ExportDirectory {
        let directory = try ExportDirectory(
            path: Self.directory(nextToSocket: socket), mode: settings.mode, group: socketGroup())
        directory.removeStale(keeping: Set(namespaces.all.map(\.name)))
        state.withLock { $0.written = [:] }
        return directory
    }

    /// The group of the socket file. When the agent stops, it removes the socket file before it writes the last copies.
    /// For these copies, the group that was found earlier is used.
    private func socketGroup() throws(ServerError) -> gid_t {
        var status = stat()
        if stat(socket, &status) == 0 {
            let group = status.st_gid
            state.withLock { $0.group = group }
            return group
        }
        let failure = ServerError("stat the socket", socket)
        guard let group = state.withLock({ $0.group }) else { throw failure }
        return group
    }

    /// The namespaces whose copies were written, removed or found up to date since the directory was opened.
    private var exportedNames: Set<String> { state.withLock { Set($0.written.keys) } }

    private func updateCopy(_ publication: ConfigPublication, _ directory: ExportDirectory) throws(ServerError) {
        let (name, current) = (publication.namespace, publication.current)
        let (written, rules) = state.withLock { ($0.written[name], $0.rules) }
        let mode = rules.copyMode(settings.mode, of: name, group: directory.group)
        let position = Position(epoch: publication.epoch, revision: current.snapshot.revision, mode: mode)
        if position == written { return }
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
            // If this exporter wrote the copy, the copy is outdated, because the position of the current snapshot
            // differs. A copy that an earlier agent wrote may be up to date, so its content is compared.
            if written != nil || !directory.holds(text, of: name, mode: mode) {
                try directory.write(text, of: name, mode: mode)
            }
        }
        state.withLock { $0.written[name] = position }
    }

    private func note(problem: String?) {
        let previous = state.withLock { state in
            defer { state.problem = problem }
            return state.problem
        }
        guard problem != previous else { return }
        if let problem {
            logger.warning(
                "cannot update the plain copies of the configuration; they are missing or outdated",
                metadata: ["error": "\(problem)"])
        } else {
            logger.notice("the plain copies of the configuration are up to date again")
        }
    }
}

/// The settings for copies of the current snapshots as files, in `current/` next to the socket.
package struct ExportOptions: Sendable, Equatable {
    /// `current.enabled` in the settings: whether copies are kept. Default: true.
    package var isEnabled = true
    /// `current.mode` in the settings: the permission bits of each copy, written as an octal number in quotes. The
    /// copies have the group of the socket. Default: "0640".
    package var mode: UInt32 = 0o640

    package init() {}
}
