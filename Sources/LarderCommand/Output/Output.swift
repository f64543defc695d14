import Glibc
import LarderJSON

/// Standard output and standard error, without a buffer in between: what is printed is out.
enum Output {
    /// Prints text and a line end on standard output.
    /// - Throws: ``Failure`` where it cannot be written, such as on a full disk.
    static func line(_ line: String) throws(Failure) { try text(line + "\n") }

    /// Prints text on standard output as it is.
    /// - Throws: ``Failure`` where it cannot be written.
    static func text(_ text: String) throws(Failure) {
        let code = writeAll(text, to: STDOUT_FILENO)
        if code == 0 { return }
        if code == EPIPE { endByBrokenPipe() }
        throw Failure(.failure, "cannot write to standard output: \(String(cString: strerror(code)))")
    }

    /// Prints a note on standard error, in one line that begins with the program's name; with `--json` as an object with
    /// the member `note`.
    static func note(_ text: String) {
        guard isJSON else { return errorLine("larder: \(text.printable)") }
        let note = JSONValue.building { writer in
            writer.beginObject()
            writer.member("note", text)
            writer.endObject()
        }
        errorLine(note.compactText)
    }

    /// Prints a line on standard error as it is.
    static func errorLine(_ line: String) { _ = writeAll(line + "\n", to: STDERR_FILENO) }

    /// Whether the command line asks for JSON, on standard error too.
    static let isJSON = Arguments.askForJSON(Arguments.normalized(Array(CommandLine.arguments.dropFirst())))

    /// Writes text on standard error as it is.
    static func progress(_ text: String) { _ = writeAll(text, to: STDERR_FILENO) }

    /// Whether standard output is a terminal.
    static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Ends the program as soon as nobody reads its output any more, instead of when it next writes: `larder watch |
    /// head -1` would otherwise stay until the next change.
    ///
    /// This needs a thread of its own that sleeps in poll(2) for the whole life of the program: there is no task that
    /// could own a wait for a descriptor, and no state that the thread shares with anybody.
    static func endWhenReaderCloses() {
        var status = stat()
        guard fstat(STDOUT_FILENO, &status) == 0 else { return }
        let kind = status.st_mode & S_IFMT
        guard kind == S_IFIFO || kind == S_IFSOCK else { return }
        var thread = pthread_t()
        _ = pthread_create(
            &thread, nil,
            { _ in
                // With no events asked for, poll(2) reports errors and hang-ups only.
                var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
                while poll(&output, 1, -1) <= 0 {}
                Output.endByBrokenPipe()
            }, nil)
    }

    /// Ends the program as a writer whose reader is gone ends by default. The network library ignores SIGPIPE.
    static func endByBrokenPipe() -> Never { Interruption.end(by: SIGPIPE) }

    private static func writeAll(_ text: String, to descriptor: Int32) -> Int32 {
        var text = text
        return text.withUTF8 { writeAll(UnsafeRawBufferPointer($0), to: descriptor) }
    }

    /// Writes all of it and answers 0, or the `errno`.
    static func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32 {
        var rest = bytes
        while !rest.isEmpty {
            let count = write(descriptor, rest.baseAddress, rest.count)
            if count >= 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if errno == EAGAIN {
                // The descriptor is shared with somebody who made it non-blocking.
                var output = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&output, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }
}
