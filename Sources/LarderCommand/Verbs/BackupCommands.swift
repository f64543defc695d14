import ArgumentParser
import Glibc
import LarderClientCore
import LarderProtocol

/// `larder backup FILE`
struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Save the state of the running agent to a file.",
        discussion: """
            The file contains the snapshots of every namespace with all layers, including overrides, pushed documents, \
            rollbacks and the history. Each namespace is saved as of one moment, and includes every change that was \
            acknowledged before. The file contains values that the settings declare secret, so only its owner can read \
            a new file. An existing file of yours keeps its group, mode, access control lists, user.* attributes and \
            SELinux label; a file of another user is not replaced. Required rights: administer, read and secrets; root \
            and the agent's user have them. Namespaces that you may not read are omitted; backup and restore report \
            this.

            The file does not contain the settings, the files of the layers, credentials or images.

            EXAMPLES:
              larder backup /var/backups/larder.backup
              larder restore /var/backups/larder.backup    while the agent is stopped
            """)

    @Argument(
        help: ArgumentHelp("The file to write. An existing file is replaced.", valueName: "file"), completion: .file())
    var file: String

    @OptionGroup var agent: AgentOptions

    /// A generous upper bound for the size of a reply with a snapshot, in bytes. Such a reply contains each document at
    /// most twice, as escaped text in a JSON string.
    private static let maximumReplyBytes = 1 << 30

    func validate() throws {
        if file == "-" { throw ValidationError("a backup cannot be written to standard output; name a file") }
    }

    func run() async throws {
        try await agent.connection.withClient(maximumReplyBytes: Self.maximumReplyBytes) { client in
            let backup = try await Self.backup(of: client)
            let bytes = backup.encoded()
            try NewFile.replace(file, with: bytes)
            let (namespaces, snapshots) = (backup.namespaceCount, backup.generations.count)
            if let omission = backup.omission { Output.note("the backup \(omission)") }
            if agent.json {
                let result: JSONValue = [
                    "file": .string(file), "bytes": .int(bytes.count), "namespaces": .int(namespaces),
                    "snapshots": .int(snapshots), "omitted": .array(backup.omitted.map(JSONValue.string)),
                    "complete": .bool(backup.isComplete ?? false),
                ]
                return try Output.line(result.compactText)
            }
            try Output.line(
                "\(Human.count(namespaces, "namespace", "namespaces")), "
                    + "\(Human.count(snapshots, "snapshot", "snapshots")), \(Human.bytes(bytes.count))")
        }
    }

    private static func backup(of client: LarderClient) async throws -> BackupFile {
        let agent = try await client.call(AgentInfo.self, NoParameters())
        var backup = BackupFile(
            version: agent.version, createdAt: Timestamp.now.description, stateDirectory: agent.stateDirectory)
        backup.omitted = agent.namespaceRights.keys.filter { !agent.namespaces.contains($0) }.sorted()
        backup.isComplete = Self.isTrusted(agent.peer, agent)
        for namespace in agent.namespaces {
            let current = try await client.call(
                ConfigBackup.self, ConfigBackup.Parameters(namespace: namespace))
            var saved = [current]
            for revision in current.revisions where revision != current.revision {
                do throws(LarderClientError) {
                    let parameters = ConfigBackup.Parameters(revision: revision, namespace: namespace)
                    saved.append(try await client.call(ConfigBackup.self, parameters))
                } catch {
                    // The agent may remove an old snapshot from the history while the backup is being made. The backup
                    // is then made without that snapshot.
                    if error.remoteError?.code != .notFound { throw error }
                }
            }
            for one in saved {
                guard let text = one.generation else { continue }
                backup.generations.append(
                    BackupFile.Generation(
                        namespace: namespace, revision: one.revision, text: text, isPinned: one.isPinned))
            }
        }
        return backup
    }

    /// Whether the caller is root or the owner of the state directory, which is the agent's user.
    private static func isTrusted(_ peer: AgentInfo.Peer, _ agent: AgentInfo.Result) -> Bool {
        if peer.uid == 0 { return true }
        var status = stat()
        return stat(agent.stateDirectory, &status) == 0 && Int(status.st_uid) == peer.uid
    }
}

/// `larder restore FILE`
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Restore a backup to the state directory of a stopped agent.",
        discussion: """
            The backup replaces the current state, which is kept as \(StateRestore.previousName) in the state \
            directory until the next restore. Every line of the file is checked before anything is written. The agent \
            then starts a new epoch, so clients that resume a subscription get the whole document.

            First stop the agent with systemctl stop larder.socket larder.service. Afterwards start both again with \
            systemctl start larder.socket larder.service, or only the socket if the agent starts on demand.

            EXAMPLES:
              larder restore /var/backups/larder.backup
              larder restore /var/backups/larder.backup --state-directory /var/lib/larder
            """)

    @Argument(help: ArgumentHelp("A file that larder backup created.", valueName: "file"), completion: .file())
    var file: String

    @Option(
        help: ArgumentHelp(
            "The state directory to restore to.",
            discussion:
                "Default: $XDG_STATE_HOME/larder; for root /var/lib/larder. Required if the backup is from another directory.",
            valueName: "path"), completion: .directory)
    var stateDirectory: String?

    @Flag(help: "Print the result as one line of JSON.")
    var json = false

    func run() throws {
        let backup = try BackupFile(decoding: Input.contents(of: file), name: file)
        let directory = try StateLocation.directory(named: stateDirectory, for: backup, file)
        try StateRestore(directory: directory).run(backup)
        if let omission = backup.omission {
            Output.note(
                "the backup \(omission); their previous state, if any, is in \(directory)/\(StateRestore.previousName)")
        }
        if json {
            let result: JSONValue = [
                "stateDirectory": .string(directory), "createdAt": .string(backup.createdAt),
                "namespaces": .int(backup.namespaceCount), "snapshots": .int(backup.generations.count),
                "omitted": .array(backup.omitted.map(JSONValue.string)), "complete": .bool(backup.isComplete ?? false),
            ]
            return try Output.line(result.compactText)
        }
        try Output.line(
            "restored \(Human.count(backup.namespaceCount, "namespace", "namespaces")) as of \(backup.createdAt.printable) "
                + "to \(directory.printable); start the agent, which starts a new epoch")
    }
}
