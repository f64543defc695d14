import ArgumentParser
import LarderProtocol

/// The command line, with its verbs.
struct Larder: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "larder",
        abstract: "Read, follow and change the configuration of the local agent, and use its image cache.",
        discussion: """
            By default the output is for people and shell scripts. With --json, every verb except exec and render \
            prints the agent's result as JSON, one line per result. Errors are one line on standard error.

            EXAMPLES:
              larder get search.limit            print one value
              larder set search.limit 25         override a value
              larder watch search                print one line for each new snapshot
              larder explain search.limit        show which layer a value comes from, and since when
              larder status                      show the state of each namespace, and why
              larder doctor                      find problems and show how to correct them
              larder image get URL -o FILE       copy an image from the cache that all processes share

            EXIT STATUS:
            \(exitStatuses)

            ENVIRONMENT:
              LARDER_SOCKET      path of the agent socket
              XDG_RUNTIME_DIR    directory that contains larder/larder.sock, the socket of the user's own agent
              NO_COLOR           disables colors if it is not empty
            """,
        version: larderVersion,
        subcommands: [
            GetCommand.self, SetCommand.self, UnsetCommand.self, ApplyCommand.self, IncrementCommand.self,
            EditCommand.self, ValidateCommand.self, WatchCommand.self, WaitCommand.self,
            ExplainCommand.self, HistoryCommand.self, DiffCommand.self, RollbackCommand.self,
            RefreshCommand.self, PushCommand.self, BackupCommand.self, RestoreCommand.self,
            RenderCommand.self, ExecCommand.self, AcknowledgeCommand.self, StatusCommand.self,
            DoctorCommand.self, InfoCommand.self, PingCommand.self, ClientsCommand.self, ImageCommand.self,
            CallCommand.self,
        ])

    // This text is created at every start. It is built without joined(), because the first call of joined() makes the
    // runtime search for protocol conformances.
    private static var exitStatuses: String {
        var text = ""
        for status in ExitStatus.allCases {
            if !text.isEmpty { text += "\n" }
            text += "  \(status.rawValue)  \(status.meaning)"
        }
        return text
    }
}
