import ArgumentParser
import Dispatch
import Glibc
import LarderClientCore
import LarderPlatform
import LarderProtocol

/// The command line program: parses the arguments, runs the command, and turns an error into one line and an exit
/// status.
package enum CommandEntry {
    /// Runs the command of this process and ends the process.
    package static func main() -> Never {
        StandardStreams.openMissing()
        // Record the signal dispositions and open descriptors before Dispatch changes them, so that started programs
        // inherit the original ones.
        _ = SignalDispositions.inherited
        _ = OpenDescriptors.inherited
        DispatchTraces.begin()
        Task { await run() }
        dispatchMain()
    }

    /// Runs the command outside the main queue, because returning to that queue only to exit would require another
    /// thread.
    @concurrent
    private static func run() async -> Never {
        let arguments = Arguments.normalized(Array(CommandLine.arguments.dropFirst()))
        Output.isJSON = Arguments.requestsJSON(arguments)
        do {
            // The asynchronous form is required for completion, which sends requests to the agent.
            var command = try await Larder.asyncParseAsRoot(arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            await end(error, arguments)
        }
        exit(ExitStatus.success.rawValue)
    }

    private static func end(_ error: any Error, _ arguments: [String]) async -> Never {
        let failure: Failure
        switch error {
        case let error as Failure: failure = error
        case let error as LarderClientError: failure = Failure(error)
        case _ where Larder.exitCode(for: error).isSuccess:
            // --help, --version and completion are not failures. An empty line would be a candidate in fish.
            let text = Larder.fullMessage(for: error)
            if !text.isEmpty { try? Output.line(text) }
            exit(ExitStatus.success.rawValue)
        default:
            let message: String
            if let verb = Arguments.unknownVerb(arguments) {
                let similar = Arguments.similarVerb(to: verb)
                message = "unknown verb \"\(verb)\"" + (similar.map { "; write larder \($0)" } ?? "")
            } else {
                message = await UsageMessage.text(for: error, arguments)
            }
            failure = Failure(.usage, "\(message); see \(Arguments.helpCommand(arguments))")
        }
        failure.endThisProcess()
    }
}

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
        groupedSubcommands: [
            CommandGroup(
                name: "Values",
                subcommands: [
                    GetCommand.self, SetCommand.self, UnsetCommand.self, ReplaceCommand.self, ApplyCommand.self,
                    IncrementCommand.self, EditCommand.self, WatchCommand.self, WaitCommand.self,
                    ExplainCommand.self, AcknowledgeCommand.self,
                ]),
            CommandGroup(
                name: "History", subcommands: [HistoryCommand.self, DiffCommand.self, RollbackCommand.self]),
            CommandGroup(
                name: "Sources", subcommands: [RefreshCommand.self, PushCommand.self, ValidateCommand.self]),
            CommandGroup(name: "Files and programs", subcommands: [RenderCommand.self, ExecCommand.self]),
            CommandGroup(name: "Feature flags", subcommands: [FlagCommand.self]),
            CommandGroup(name: "Images", subcommands: [ImageCommand.self]),
            CommandGroup(
                name: "Agent",
                subcommands: [
                    StatusCommand.self, DoctorCommand.self, InfoCommand.self, PingCommand.self, ClientsCommand.self,
                    MetricsCommand.self, BackupCommand.self, RestoreCommand.self, CallCommand.self,
                ]),
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
