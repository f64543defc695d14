import ArgumentParser
import Dispatch
import LarderClient
import Glibc

/// The command line as a program: parses, runs, and turns each failure into one line and an exit status.
package enum CommandEntry {
    /// Runs the command that this process was started with, and ends the process.
    package static func main() -> Never {
        // Before Dispatch opens descriptors and blocks signals: the programs that are started inherit what this one did.
        _ = SignalDispositions.inherited
        _ = OpenDescriptors.inherited
        DispatchTraces.begin()
        Task { await run() }
        dispatchMain()
    }

    /// Away from the main thread's queue: to come back to it at the end, only to exit, would take one more thread.
    @concurrent
    private static func run() async -> Never {
        let arguments = Arguments.normalized(Array(CommandLine.arguments.dropFirst()))
        do {
            var command = try Larder.parseAsRoot(arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            end(error, arguments)
        }
        exit(ExitStatus.success.rawValue)
    }

    private static func end(_ error: any Error, _ arguments: [String]) -> Never {
        let failure: Failure
        switch error {
        case let error as Failure: failure = error
        case let error as LarderClientError: failure = Failure(error)
        case _ where Larder.exitCode(for: error).isSuccess:
            // --help and --version are not failures.
            try? Output.line(Larder.fullMessage(for: error))
            exit(ExitStatus.success.rawValue)
        default:
            let message =
                Arguments.unknownVerb(arguments).map { "there is no verb \"\($0)\"" } ?? Larder.message(for: error)
            failure = Failure(.usage, "\(message); see \(Arguments.helpCommand(arguments))")
        }
        failure.endThisProcess()
    }
}
