import ArgumentParser
import LarderClientCore
import LarderJSON
import LarderProtocol

/// `larder apply FILE`
struct ApplyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apply",
        abstract: "Set and remove several overrides as one change, or many in chunks.",
        discussion: """
            The file has one of three forms. Lines of PATH=VALUE set overrides, with VALUE as for larder set and no blanks \
            around the =; lines of unset PATH remove them; empty lines and lines that begin with # are ignored. A JSON object has a member for \
            each path and its value. A JSON array has the changes as config.apply takes them, with op (set, unset or \
            test), path, value, ttlMilliseconds, ifValue and ifAbsent. As in JSON5, comments, names without quotation \
            marks and trailing commas are allowed. A file with a mistake changes nothing.

            All changes of a file of at most 1,000 changes are made, with one revision, or none of them. If a \
            condition does not hold, the exit status is 13.

            A longer file is applied in chunks of at most 1,000 changes, and progress is shown on a terminal. Such a \
            file is not one change: each chunk has its own revision, and the chunks before an error stay. Ctrl-C \
            stops after the current chunk. Standard error then has the number of changes that were made, and the \
            program ends by the signal (in a shell, exit status 130). The same command resumes: overrides that are \
            set already change nothing. --if-revision, ifValue, ifAbsent and --dry-run are only for files of at most \
            1,000 changes.

            EXAMPLES:
              larder apply changes.json5 --reason "new search cluster"
              larder apply changes.json5 --dry-run
              printf '%s\\n' search.limit=25 'unset search.offset' | larder apply -
              echo '{"search.limit": 25, "search.hosts": ["a", "b"]}' | larder apply - --if-revision 41
            """)

    @Argument(
        help: ArgumentHelp("The file that contains the changes; - is standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @OptionGroup var change: ChangeOptions
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let changes = try ChangeFile.parse(
            Input.text(of: file), name: Input.displayName(file))
        if changes.count > ConfigApply.Parameters.maxChanges { return try await apply(long: changes) }
        let parameters = ConfigApply.Parameters(
            changes, namespace: namespace.namespace, ifRevision: change.condition, reason: change.reason,
            isDryRun: change.dryRun)
        try await agent.printResult(of: ConfigApply.self, parameters, ChangeReport.text)
    }

    private func apply(long changes: [ConfigApply.Change]) async throws {
        let unsupported: String? =
            if change.ifRevision != nil {
                "--if-revision"
            } else if change.dryRun {
                "--dry-run"
            } else if changes.contains(where: { $0.ifValue != .any }) {
                "ifValue or ifAbsent"
            } else {
                nil
            }
        if let unsupported {
            throw Failure(
                .usage,
                "\(unsupported) is only for files of at most \(ConfigApply.Parameters.maxChanges) changes, but the file "
                    + "has \(changes.count); split the file")
        }
        var end: CInt?
        try await agent.connection.withClient { client in
            let run = ChunkedApply(
                changes, namespace: namespace.namespace, reason: change.reason,
                screen: .standardError(isQuiet: agent.json))
            end = try await apply(run, over: client)
        }
        if let end { SignalDispositions.endProcess(by: end) }
    }

    /// Runs a long apply and prints the result.
    /// - Returns: the signal that stopped it; nil if it was not stopped.
    private func apply(_ run: ChunkedApply, over client: LarderClient) async throws -> CInt? {
        let (applying, stopping) = try Interruption.cancelling { try await run.apply(over: client) }
        do {
            let result = try await applying.value
            try Output.line(agent.json ? JSONValue.building { result.write(to: &$0) }.compactText : result.summary)
            return nil
        } catch let error as LarderClientError {
            let state = await run.state
            guard error.code == .cancelled else {
                Output.note("\(state); correct the cause, then run the same command to resume")
                throw error
            }
            Output.note("stopped: \(state); run the same command to resume")
            return await stopping.value
        }
    }
}
