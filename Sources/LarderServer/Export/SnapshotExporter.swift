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
///
/// The actor runs on the threads of ``BlockingThreadPool``, one call at a time, because its calls wait for the disk.
package actor SnapshotExporter {
    /// The snapshot that a copy was written from, and the permission bits of the copy.
    private struct Position: Equatable {
        var epoch: String
        var revision: Int
        var mode: UInt32
    }

    private let namespaces: ConfigNamespaces
    private let socket: String
    private let settings: ExportOptions
    private let clock: any Clock<Duration>
    private let logger: Logger
    private nonisolated let executor: DiskExecutor
    /// Why copies are missing or outdated. Event loops read it, and cannot wait for the disk.
    private nonisolated let problem = Mutex<String?>(nil)
    /// The open directory; nil before it is opened and after an error.
    private var directory: ExportDirectory?
    /// The access rules. Until they are set, only the agent's user may read the copies.
    private var rules = AccessRules()
    private var written: [String: Position] = [:]
    /// The group of the socket file when the exporter last found it; nil before that.
    private var group: gid_t?

    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// The minimum pause after each write. Changes during the pause are combined into the next write.
    private static let pause = Duration.milliseconds(20)
    private static let maxPause = Duration.milliseconds(500)
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
        executor = DiskExecutor(blocking)
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
    nonisolated func copy(of namespace: String) -> (path: String, problem: String?) {
        let path = Self.directory(nextToSocket: socket) + "/" + ExportDirectory.name(of: namespace)
        return (path, problem.withLock { $0 })
    }

    /// Writes the first copies. The agent reports readiness afterwards.
    /// - Parameter rules: the rules that decide who may read the copies
    package func start(by rules: AccessRules) {
        self.rules = rules
        _ = writeDifferences()
    }

    /// Applies new access rules. When this returns, no user can read the copy of a namespace that the rules do not let
    /// the user read, even if the disk is full. Permissions that the new rules add take effect with the next write.
    package func use(_ rules: AccessRules) {
        self.rules = rules
        do throws(ServerError) {
            try inDirectory { _ throws(ServerError) in }
        } catch {
            note(problem: error.description)
        }
        namespaces.noteChange()
    }

    /// Writes new snapshots until the task is cancelled, then writes the last ones.
    package nonisolated func run() async {
        for await _ in namespaces.changes() {
            // After a failure the first retry follows at once: if the directory was removed, the retry creates it
            // again. Each further retry follows after a pause.
            let elapsed = clock.stopwatch()
            if await !writeDifferences() {
                while await !writeDifferences(), !Task.isCancelled {
                    try? await clock.sleep(for: Self.pauseAfterFailure)
                }
            }
            // Writing large documents takes a processor from the threads that serve clients, so it gets a fifth of the time.
            try? await clock.sleep(for: max(Self.pause, min(elapsed() * 4, Self.maxPause)))
        }
        _ = await writeDifferences()
    }

    /// Writes the copies that differ from the current snapshots.
    /// - Returns: false if a copy could not be written
    private func writeDifferences() -> Bool {
        do throws(ServerError) {
            try inDirectory(updateCopies)
            note(problem: nil)
            return true
        } catch {
            note(problem: error.description)
            return false
        }
    }

    private func updateCopies(in directory: ExportDirectory) throws(ServerError) {
        var failure: ServerError?
        let publications = namespaces.all.map(\.publication)
        for publication in publications {
            do throws(ServerError) {
                try updateCopy(publication, directory)
            } catch {
                failure = error
            }
        }
        for name in exportedNames.subtracting(publications.map(\.namespace)) {
            try directory.remove(name)
            written[name] = nil
        }
        if let failure { throw failure }
    }

    /// Runs `body` with the directory, after restricting the modes of all copies to the access rules.
    private func inDirectory(_ body: (ExportDirectory) throws(ServerError) -> Void) throws(ServerError) {
        do throws(ServerError) {
            let directory: ExportDirectory
            if let open = self.directory { directory = open } else { directory = try open() }
            self.directory = directory
            try restrictMode(directory)
            try body(directory)
        } catch {
            // The directory may have been removed. The next attempt opens it again.
            directory = nil
            throw error
        }
    }

    private func restrictMode(_ directory: ExportDirectory) throws(ServerError) {
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
        written = [:]
        return directory
    }

    /// The group of the socket file. When the agent stops, it removes the socket file before it writes the last copies.
    /// For these copies, the group that was found earlier is used.
    private func socketGroup() throws(ServerError) -> gid_t {
        var status = stat()
        if stat(socket, &status) == 0 {
            group = status.st_gid
            return status.st_gid
        }
        let failure = ServerError("stat the socket", socket)
        guard let group else { throw failure }
        return group
    }

    /// The namespaces whose copies were written, removed or found up to date since the directory was opened.
    private var exportedNames: Set<String> { Set(written.keys) }

    private func updateCopy(_ publication: ConfigPublication, _ directory: ExportDirectory) throws(ServerError) {
        let (name, current) = (publication.namespace, publication.current)
        let known = written[name]
        let mode = rules.copyMode(settings.mode, of: name, group: directory.group)
        let position = Position(epoch: publication.epoch, revision: current.snapshot.revision, mode: mode)
        if position == known { return }
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
            if known != nil || !directory.holds(text, of: name, mode: mode) {
                try directory.write(text, of: name, mode: mode)
            }
        }
        written[name] = position
    }

    private func note(problem: String?) {
        let previous = self.problem.withLock { known in
            defer { known = problem }
            return known
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
