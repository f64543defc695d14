import LarderConfigModel
import LarderJSON
package import LarderConfig
package import LarderPlatform
package import Logging
import Synchronization
import Glibc

/// Plain copies of the current snapshots, `current/NAMESPACE.json` beside the socket, for readers that only know files.
///
/// One task writes all of them, after changes of any namespace. It compares the current snapshots with the copies that it wrote
/// last, so several changes may share one write. No publication waits for it.
package final class SnapshotExporter: Sendable {
    private struct State {
        /// The rules of access. Until they are set, only the agent's user may read the copies.
        var rules = AccessRules()
        var written: [String: Position] = [:]
        var problem: String?
        /// The group of the socket when it was last there.
        var group: gid_t?
    }

    /// The state that a copy was written from.
    private struct Position: Equatable {
        var epoch: String
        var revision: Int
        var mode: UInt32
    }

    private let namespaces: ConfigNamespaces
    private let socket: String
    private let settings: ExportOptions
    private let blocking: BlockingWork
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let state = Mutex(State())
    /// The directory, once it is open. A thread locks it for the time of its work, in which it may wait for the disk.
    private let directory = Mutex<ExportDirectory?>(nil)

    /// After a write, changes within this time are joined into the next.
    private static let pause = Duration.milliseconds(20)
    private static let pauseAfterFailure = Duration.seconds(30)

    /// Makes an exporter; it writes nothing yet.
    /// - Parameters:
    ///   - namespaces: the namespaces whose snapshots are exported.
    ///   - socket: the path of the socket. The copies get its group.
    ///   - blocking: the threads that wait for the disk.
    package init(
        of namespaces: ConfigNamespaces, besideSocket socket: String, settings: ExportOptions,
        blocking: BlockingWork, clock: any Clock<Duration> = ContinuousClock(), logger: Logger
    ) {
        self.namespaces = namespaces
        self.socket = socket
        self.settings = settings
        self.blocking = blocking
        self.clock = clock
        self.logger = logger
    }

    /// Where the copies are.
    package static func directory(besideSocket socket: String) -> String {
        let directory = socket.lastIndex(of: "/").map { String(socket[..<$0]) } ?? "."
        return directory + "/current"
    }

    /// Removes the copies that an earlier agent made beside a socket, for an agent that makes none.
    package static func clear(besideSocket socket: String, blocking: BlockingWork) async {
        await blocking.run { ExportDirectory.clear(directory(besideSocket: socket)) }
    }

    /// Where a namespace's copy is, and why it is missing or old, if it is.
    func copy(of namespace: String) -> (path: String, problem: String?) {
        let path = Self.directory(besideSocket: socket) + "/" + ExportDirectory.name(of: namespace)
        return (path, state.withLock { $0.problem })
    }

    /// Writes the first copies, which exist when the agent reports that it is ready.
    /// - Parameter rules: who may read them.
    package func start(by rules: AccessRules) async {
        state.withLock { $0.rules = rules }
        _ = await writeDifferences()
    }

    /// Applies other rules of access. When it returns, no copy is readable by a user who may not read it, even if the disk is
    /// full. Copies that more users may read are opened within the next write.
    package func use(_ rules: AccessRules) async {
        state.withLock { $0.rules = rules }
        do throws(ExportError) {
            try await blocking.run { () throws(ExportError) in try self.inDirectory { _ throws(ExportError) in } }
        } catch {
            note(problem: error.description)
        }
        namespaces.noteChange()
    }

    /// Writes each new snapshot until the task is cancelled, and then the last ones.
    package func run() async {
        for await _ in namespaces.changes() {
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

    /// Writes the copies that differ from the current snapshots.
    /// - Returns: false if a copy could not be written.
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
            let publications = self.namespaces.all.map(\.publication)
            for publication in publications {
                do throws(ExportError) {
                    try self.bringUpToDate(publication, directory)
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

    /// Runs `body` in the directory, after the modes of all copies were reduced to the rules of access.
    private func inDirectory(_ body: (ExportDirectory) throws(ExportError) -> Void) throws(ExportError) {
        try directory.withLock { kept throws(ExportError) in
            do throws(ExportError) {
                let directory: ExportDirectory
                if let open = kept { directory = open } else { directory = try open() }
                kept = directory
                try narrow(directory)
                try body(directory)
            } catch {
                // The directory may have been removed; the next attempt opens it again.
                kept = nil
                throw error
            }
        }
    }

    private func narrow(_ directory: ExportDirectory) throws(ExportError) {
        let (written, rules) = state.withLock { ($0.written, $0.rules) }
        // A namespace that was removed still has its copy until the next write.
        for name in exportedNames.union(namespaces.all.map(\.name)) {
            let mode = rules.copyMode(settings.mode, of: name, group: directory.group)
            if written[name]?.mode != mode { try directory.narrow(name, to: mode) }
        }
    }

    private func open() throws(ExportError) -> ExportDirectory {
        let directory = try ExportDirectory(
            path: Self.directory(besideSocket: socket), mode: settings.mode, group: socketGroup())
        directory.removeStale(keeping: Set(namespaces.all.map(\.name)))
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

    /// The namespaces whose copies were compared since the directory was opened.
    private var exportedNames: Set<String> { state.withLock { Set($0.written.keys) } }

    private func bringUpToDate(_ publication: ConfigPublication, _ directory: ExportDirectory) throws(ExportError) {
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
            // A copy that this agent wrote differs from the current snapshot.
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
                "the plain copies of the configuration are missing or old; everything else goes on",
                metadata: ["error": "\(problem)"])
        } else {
            logger.notice("the plain copies of the configuration are up to date again")
        }
    }
}
