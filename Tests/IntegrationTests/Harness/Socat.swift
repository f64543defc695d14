import TestSupport

/// What shell scripts do: `… | socat - UNIX-CONNECT:path`.
enum Socat {
    /// How long socat waits for more after its input has ended; by default half a second, too little for a busy machine.
    static let patience = ["-t", "60"]

    /// Pipes a text through socat, whose input ends with it.
    /// - Returns: the lines that came back.
    static func pipe(_ input: String, to path: String) throws -> [String] {
        let recorder = Recorder()
        for line in input.split(separator: "\n") { recorder?.sent(line.utf8) }
        let command = try Command.run("socat", patience + ["-", "UNIX-CONNECT:\(path)"], input: input)
        guard command.end == .exit(0) else { throw HarnessError("socat ended with \(command.end): \(command.log)") }
        for line in command.output { recorder?.received(line.utf8) }
        return command.output
    }
}
