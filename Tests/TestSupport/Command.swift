/// The result of a finished program.
package struct Command: Equatable {
    package let end: ChildProcess.End
    /// The standard output.
    package let text: String
    /// The standard error, without the last line feed.
    package let log: String

    package init(end: ChildProcess.End, text: String, log: String = "") {
        self.end = end
        self.text = text
        self.log = log
    }

    /// The lines of the standard output.
    package var output: [String] {
        let lines = Array(text.utf8).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        return (text.utf8.last == UInt8(ascii: "\n") || text.isEmpty ? lines.dropLast() : lines[...])
            .map { String(decoding: $0, as: UTF8.self) }
    }

    /// The exit status as a shell reports it: 128 plus the signal number if a signal ended the program.
    package var status: CInt {
        switch end {
        case .exit(let status): status
        case .signal(let number): 128 + number
        }
    }

    /// Runs a program and waits until it ends.
    /// - Parameter input: the text for its standard input
    @discardableResult
    package static func run(
        _ executable: String, _ arguments: [String], environment: [String: String] = ChildProcess.environment,
        directory: String = "/", input: String = "", until deadline: Deadline = .usual
    ) throws -> Command {
        let process = try ChildProcess(
            executable, arguments, environment: environment, directory: directory, input: true)
        try process.write(Array(input.utf8))
        return try process.finish(until: deadline)
    }
}
