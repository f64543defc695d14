import CLinuxShims
import Glibc
import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderProtocol
import Synchronization

/// Standard output and standard error, unbuffered.
///
/// Names and values come from other users. On a terminal, control characters in the text are therefore escaped
/// (``Swift/String/terminalText``). In a file or a pipe, the text is unchanged.
enum Output {
    /// Prints text and a line end on standard output.
    /// - Throws: ``Failure`` if it cannot be written, for example because the disk is full.
    static func line(_ line: String) throws(Failure) { try text(line + "\n") }

    /// Prints text on standard output without a line end.
    /// - Throws: ``Failure`` if it cannot be written.
    static func text(_ text: String) throws(Failure) {
        let code = writeSafely(text, to: STDOUT_FILENO)
        if code == 0 { return }
        if code == EPIPE { endByBrokenPipe() }
        throw Failure(.failure, "cannot write to standard output: \(String(cString: strerror(code)))")
    }

    /// Prints a note on standard error: one line that begins with the program's name or, with `--json`, an object with
    /// the member `note`.
    static func note(_ text: String) {
        guard isJSON else { return errorLine("larder: \(text.printable)") }
        errorLine((["note": .string(text)] as JSONValue).compactText)
    }

    /// Prints text and a line end on standard error.
    static func errorLine(_ line: String) { _ = writeSafely(line + "\n", to: STDERR_FILENO) }

    /// Whether the arguments request JSON, on standard output and on standard error. Set before the command runs.
    static var isJSON: Bool {
        get { requestsJSON.load(ordering: .relaxed) }
        set { requestsJSON.store(newValue, ordering: .relaxed) }
    }
    private static let requestsJSON = Atomic(false)

    /// Prints text with control sequences on standard error. The text must not contain names or values.
    static func progress(_ text: String) { _ = writeAll(text, to: STDERR_FILENO) }

    /// Erases the terminal of standard output, and moves the cursor to its top left.
    static func clearScreen() { _ = writeAll("\u{1B}[H\u{1B}[J", to: STDOUT_FILENO) }

    static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

    /// The size of a terminal in characters; 80 by 24 if it is unknown.
    static func terminalSize(_ descriptor: CInt = STDOUT_FILENO) -> (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Ends the program as soon as the reader of its output closes the pipe. Otherwise the program would end only at
    /// its next write, so `larder watch | head -1` would keep running until the next change.
    ///
    /// A dedicated thread sleeps in poll(2) for the life of the program. In a task, poll(2) would block one of the few
    /// threads that run tasks.
    static func endWhenReaderCloses() {
        var status = stat()
        guard fstat(STDOUT_FILENO, &status) == 0 else { return }
        let kind = status.st_mode & S_IFMT
        guard kind == S_IFIFO || kind == S_IFSOCK else { return }
        // Without the thread, the program ends at its next write.
        _ = larder_start_thread(
            "output", 0,
            { _ in
                // If no events are requested, poll(2) reports only errors and hang-ups.
                var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
                while poll(&output, 1, -1) <= 0 {}
                Output.endByBrokenPipe()
            }, nil)
    }

    /// Ends the program by SIGPIPE. By default, the kernel does this when a program writes to a pipe without a reader,
    /// but the network library makes the process ignore SIGPIPE.
    static func endByBrokenPipe() -> Never { SignalDispositions.endProcess(by: SIGPIPE) }

    private static func writeSafely(_ text: String, to descriptor: Int32) -> Int32 {
        writeAll(isatty(descriptor) == 1 ? text.terminalText : text, to: descriptor)
    }

    private static func writeAll(_ text: String, to descriptor: Int32) -> Int32 {
        var text = text
        return text.withUTF8 { writeAll(UnsafeRawBufferPointer($0), to: descriptor) }
    }

    /// Writes all bytes. Returns 0 or the `errno`.
    static func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32 {
        var rest = bytes
        while !rest.isEmpty {
            let count = write(descriptor, rest.baseAddress, rest.count)
            if count >= 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if errno == EAGAIN {
                // Another process that shares the open file has made the file non-blocking. Wait until it can be
                // written.
                var output = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&output, 1, -1)
            } else if errno != EINTR {
                return errno
            }
        }
        return 0
    }
}

/// Creates the commands in messages. They are complete, so that users can paste them.
struct Hints: Sendable, Equatable {
    /// The socket that the user passed; nil for the default.
    var socket: String?

    /// Adds the options `--socket` and `--namespace` to a command if they are not the default.
    /// - Parameters:
    ///   - words: the command without these options, such as `larder refresh --force`.
    ///   - namespace: the namespace of the command; nil for none.
    func command(_ words: String, namespace: String? = nil) -> String {
        var command = words
        if let namespace, namespace != defaultNamespace { command += " --namespace \(namespace.shellWord)" }
        if let socket { command += " --socket \(socket.shellWord)" }
        return command
    }
}

/// The value of a variable in the environment of this process; nil if it is missing or empty.
func environmentVariable(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
}

extension Style {
    /// The style for standard output: colors on a terminal that supports them, unless `NO_COLOR` is set
    /// (https://no-color.org).
    static var standardOutput: Style {
        Style(
            isTerminal: Output.isTerminal, noColor: environmentVariable("NO_COLOR") ?? "",
            terminal: environmentVariable("TERM") ?? "")
    }
}
