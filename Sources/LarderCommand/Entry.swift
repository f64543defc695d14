import ArgumentParser
import Dispatch
import LarderClientCore
import LarderPlatform
import Glibc

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
                message = "unknown verb \"\(verb)\""
            } else {
                message = await UsageMessage.text(for: error, arguments)
            }
            failure = Failure(.usage, "\(message); see \(Arguments.helpCommand(arguments))")
        }
        failure.endThisProcess()
    }
}
