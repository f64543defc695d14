import TestSupport

/// Runs socat as shell scripts do: `… | socat - UNIX-CONNECT:path`.
enum Socat {
    /// The options that make socat wait up to 60 s for output after the end of its input. The default of 0.5 s is too
    /// short for a busy machine.
    static let timeout = ["-t", "60"]

    /// Sends a text through socat and returns the lines that the agent sends back.
    static func pipe(_ input: String, to path: String) throws -> [String] {
        let recorder = Recorder()
        for line in input.split(separator: "\n") { recorder?.sent(line.utf8) }
        let command = try Command.run("socat", timeout + ["-", "UNIX-CONNECT:\(path)"], input: input)
        guard command.end == .exit(0) else { throw HarnessError("socat ended with \(command.end): \(command.log)") }
        for line in command.output { recorder?.received(line.utf8) }
        return command.output
    }
}
