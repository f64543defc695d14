import ArgumentParser
import LarderClientCore

/// `larder watch [PATH]`
struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print the current value, and then each new one.",
        discussion: """
            Prints one line for each snapshot: a string without quotes, anything else as JSON. A string that contains \
            line breaks or other control characters is printed as JSON, too. The line is empty if there is no value at \
            the path. A slow reader gets the newest value, not a backlog. If the agent restarts, watch reconnects and \
            continues, and reports this on standard error.

            EXAMPLES:
              larder watch search.limit
              larder watch search --json         with revision, epoch, state and skipped
              larder watch --count 1             print the first snapshot, then exit
              larder watch search.limit | while read -r limit; do apply "$limit"; done
            """)

    @OptionGroup var path: PathArgument

    @Option(help: ArgumentHelp("Exit after this many snapshots.", valueName: "number"))
    var count: Int?

    @Flag(help: "Let the agent send only the changes. The output is the same; large documents cause less traffic.")
    var patch = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count must be 1 or more, not \(count)") }
    }

    func run() async throws {
        _ = try path.path
        Output.endWhenReaderCloses()
        try await agent.connection.withClient { client in
            let notes = InterruptionNotes()
            let snapshots = client.config.snapshots(
                at: path.text, namespace: namespace.namespace, mode: patch ? .patch : .snapshot
            ) { notes.interrupted($0) }
            var left = count ?? .max
            for try await snapshot in snapshots {
                notes.resumed()
                try Output.line(agent.json ? Self.json(snapshot).compactText : ValueFormat.line(snapshot.value))
                left -= 1
                if left == 0 { break }
            }
        }
    }

    /// A snapshot as JSON, with the members of a `config.event` notification.
    static func json(_ snapshot: LarderSnapshot) -> JSONValue {
        .object([
            ("namespace", .string(snapshot.namespace)), ("epoch", .string(snapshot.epoch)),
            ("revision", .int(snapshot.revision)), ("state", .string(snapshot.state.rawValue)),
            ("skipped", .int(snapshot.skipped)), snapshot.value.map { ("value", $0) } ?? ("exists", false),
        ])
    }
}
