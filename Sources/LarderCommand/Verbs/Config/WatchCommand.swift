import ArgumentParser
import LarderClient

/// `larder watch [PATH]`
struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print the value now and each time it changes.",
        discussion: """
            One line for each snapshot: strings and numbers bare, the rest as JSON; a string with line breaks or other \
            control characters as JSON too; an empty line where there is nothing at the path. A reader that is slow gets \
            the newest value, never a backlog. When the agent restarts, watch connects again and goes on; what it does \
            about it is noted on standard error.

            EXAMPLES:
              larder watch search.limit
              larder watch search --json         with revision, epoch, state and skipped
              larder watch --count 1             the first snapshot, then end
              larder watch search.limit | while read -r limit; do apply "$limit"; done
            """)

    @OptionGroup var path: PathArgument

    @Option(help: ArgumentHelp("End after this many snapshots.", valueName: "number"))
    var count: Int?

    @Flag(help: "Let the agent send only what changed: the same output, fewer bytes for large documents.")
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

    /// A snapshot as JSON, with the members of a `config.event`.
    static func json(_ snapshot: ConfigSnapshot) -> JSONValue {
        .building { writer in
            writer.beginObject()
            writer.member("namespace", snapshot.namespace)
            writer.member("epoch", snapshot.epoch)
            writer.member("revision", snapshot.revision)
            writer.member("state", snapshot.state.rawValue)
            writer.member("skipped", snapshot.skipped)
            if let value = snapshot.value { writer.member("value", value) } else { writer.member("exists", false) }
            writer.endObject()
        }
    }
}
