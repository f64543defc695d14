import ArgumentParser
import LarderClient

/// `larder apply FILE`
struct ApplyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apply",
        abstract: "Set and remove several overrides as one change.",
        discussion: """
            All changes of the file are made, with one revision, or none of them. The file has at most 1,000 changes, \
            in one of three forms. Lines of PATH=VALUE set overrides, with VALUE as for larder set; lines of \
            unset PATH remove them; empty lines and lines that begin with # are ignored. A JSON5 object has a member \
            for each path and its value. A JSON5 array has the changes as config.apply takes them, with op (set, unset \
            or test), path, value, ttlMilliseconds, ifValue and ifAbsent. If a condition does not hold, the exit \
            status is 13.

            EXAMPLES:
              larder apply changes.json5 --reason "new search cluster"
              larder apply changes.json5 --dry-run
              printf '%s\\n' search.limit=25 'unset search.offset' | larder apply -
              echo '{"search.limit": 25, "search.hosts": ["a", "b"]}' | larder apply - --if-revision 41
            """)

    @Argument(help: ArgumentHelp("The file that contains the changes; - is standard input.", valueName: "file"))
    var file: String

    @OptionGroup var change: ChangeOptions
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let changes = try ChangeFile.parse(
            Input.contents(of: file), name: file == "-" ? "standard input" : file)
        let parameters = ConfigApply.Parameters(
            changes, namespace: namespace.namespace, ifRevision: change.condition, reason: change.reason,
            isDryRun: change.dryRun)
        try await agent.printResult(of: ConfigApply.self, parameters) {
            ChangeReport(style: .standardOutput).text($0)
        }
    }
}
