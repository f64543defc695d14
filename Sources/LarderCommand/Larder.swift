import ArgumentParser
import LarderProtocol

/// The command line, with its verbs.
struct Larder: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "larder",
        abstract: "Read, follow and change the configuration that the local agent keeps, and use its images.",
        discussion: """
            Values are printed for people and shell scripts; with --json every verb prints the agent's result as one \
            line of JSON. Errors are one line on standard error.

            EXAMPLES:
              larder get search.limit            print one value
              larder set search.limit 25         put a value above all others
              larder watch search                one line for each new snapshot
              larder explain search.limit        which layer says so, from where, since when
              larder status                      how fresh everything is, and why
              larder doctor                      what is wrong with the agent, and what to do
              larder image get URL -o FILE       an image, fetched once for the whole machine

            EXIT STATUS:
            \(exitStatuses)

            ENVIRONMENT:
              LARDER_SOCKET      the agent's socket
              XDG_RUNTIME_DIR    where the user's own agent has its socket
              NO_COLOR           no colours, whatever its value
            """,
        version: larderVersion,
        subcommands: [
            GetCommand.self, SetCommand.self, UnsetCommand.self, WatchCommand.self, WaitCommand.self,
            ExplainCommand.self, HistoryCommand.self, DiffCommand.self, RollbackCommand.self, RefreshCommand.self,
            PushCommand.self, BackupCommand.self, RestoreCommand.self, RenderCommand.self, ExecCommand.self,
            AcknowledgeCommand.self, StatusCommand.self,
            DoctorCommand.self, InfoCommand.self, PingCommand.self, ClientsCommand.self, ImageCommand.self,
            CallCommand.self,
        ])

    // This text is created at every start. joined() would make the runtime search for protocol conformances first.
    private static var exitStatuses: String {
        var text = ""
        for status in ExitStatus.allCases {
            if !text.isEmpty { text += "\n" }
            text += "  \(status.rawValue)  \(status.meaning)"
        }
        return text
    }
}
