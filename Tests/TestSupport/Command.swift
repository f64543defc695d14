import Glibc

/// A program that was run to its end.
package struct Command {
    package let end: ChildProcess.End
    /// The lines of its standard output.
    package let output: [String]
    /// Its standard error.
    package let log: String

    /// Runs a program with an input.
    @discardableResult
    package static func run(
        _ executable: String, _ arguments: [String], environment: [String: String] = ChildProcess.environment,
        directory: String = "/", input: String = "", until deadline: Deadline = .usual
    ) throws -> Command {
        let process = try ChildProcess(
            executable, arguments, environment: environment, directory: directory, input: true)
        try process.write(Array(input.utf8))
        process.closeInput()
        var output: [String] = []
        while let line = try process.output.line(until: deadline, "\(executable) to end; its log:\n\(process.logText)")
        {
            output.append(String(decoding: line, as: UTF8.self))
        }
        return Command(end: try process.waitForEnd(until: deadline), output: output, log: process.logText)
    }
}
