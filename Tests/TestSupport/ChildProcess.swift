import CLinuxShims
package import Glibc

/// A process that a test starts, with its output.
///
/// `Foundation.Process` is not used because its children inherit the signal mask of the calling thread. Threads of the
/// task pool block most signals, so a child would never receive SIGTERM.
package final class ChildProcess {
    /// How a process ended.
    package enum End: Equatable, Sendable {
        case exit(CInt)
        case signal(CInt)
    }

    package let pid: pid_t
    /// The standard output of the process.
    package let output: LineReader
    private let errors: LineReader
    private var input: Descriptor?
    private var end: End?
    /// The lines of standard error that have been read.
    package private(set) var log: [String] = []

    /// Starts a program.
    /// - Parameters:
    ///   - executable: a path, or a name that is searched for in PATH and in Debian's standard directories
    ///   - passed: descriptors that the process inherits, numbered from 3
    package init(
        _ executable: String, _ arguments: [String], environment: [String: String] = ChildProcess.environment,
        directory: String = "/", input hasInput: Bool = false, passing passed: [CInt] = []
    ) throws {
        Self.ignoreBrokenPipes
        let (inputs, outputs, errors) = try (Descriptor.pipe(), Descriptor.pipe(), Descriptor.pipe())
        // A large pipe, so that the process does not block while the test does not read its log.
        _ = fcntl(errors.write.number, Self.setPipeSize, 1 << 20)
        pid = try withExtendedLifetime((inputs, outputs, errors)) {
            try Self.spawn(
                Self.resolve(executable), arguments, environment, directory,
                [hasInput ? inputs.read.number : -1, outputs.write.number, errors.write.number] + passed)
        }
        inputs.write.makeNonBlocking()
        input = hasInput ? inputs.write : nil
        output = LineReader(outputs.read)
        self.errors = LineReader(errors.read)
    }

    deinit { kill() }

    // MARK: Input and log

    /// Writes `bytes` to standard input. Reads standard output at the same time, so that a full output pipe does not
    /// block the child.
    package func write(_ bytes: [UInt8], until deadline: Deadline = .usual) throws {
        guard let input else { throw HarnessError("the process has no input") }
        var written = 0
        while written < bytes.count {
            let count = bytes[written...].withUnsafeBytes { Glibc.write(input.number, $0.baseAddress, $0.count) }
            if count >= 0 {
                written += count
            } else if errno == EAGAIN {
                try output.waitAndRead(orUntilWritable: input.number, until: deadline)
            } else if errno != EINTR {
                throw HarnessError.system("write to process \(pid)")
            }
        }
    }

    package func closeInput() { input = nil }

    /// Waits for the next line on standard output. Returns nil at its end.
    package func line(until deadline: Deadline = .usual) throws -> String? {
        try output.line(until: deadline, "a line from process \(pid)").map { String(decoding: $0, as: UTF8.self) }
    }

    /// Waits for the next line on standard error. Returns nil at its end.
    package func logLine(until deadline: Deadline = .usual) throws -> String? {
        guard let line = try errors.line(until: deadline, "a line in the log of process \(pid)") else { return nil }
        log.append(String(decoding: line, as: UTF8.self))
        return log.last
    }

    /// Waits for a line of standard error that contains `text`. Also finds lines that were already read.
    @discardableResult
    package func waitForLog(_ text: String, until deadline: Deadline = .usual) throws -> String {
        if let line = log.first(where: { $0.contains(text) }) { return line }
        while let line = try errors.line(until: deadline, "\"\(text)\" in the log:\n\(log.joined(separator: "\n"))") {
            log.append(String(decoding: line, as: UTF8.self))
            if log[log.count - 1].contains(text) { return log[log.count - 1] }
        }
        throw HarnessError("the process ended without \"\(text)\" in its log:\n\(log.joined(separator: "\n"))")
    }

    /// Reads the available lines of standard error into ``log``, without waiting.
    /// - Returns: whether standard error is at its end, as it is after the process has ended
    package func readLog() -> Bool {
        errors.readAvailable()
        while let line = errors.nextLine() { log.append(String(decoding: line, as: UTF8.self)) }
        return errors.isAtEnd
    }

    /// Waits until standard error has data or is closed, or another descriptor is readable.
    package func waitForLogOutput(
        or other: CInt, until deadline: Deadline, _ purpose: @autoclosure () -> String
    ) throws {
        try errors.waitForInput(orReadable: other, until: deadline, purpose())
    }

    /// Everything on standard error, as one text.
    package var logText: String {
        _ = readLog()
        return log.joined(separator: "\n")
    }

    // MARK: End

    /// Sends a signal, unless the process has been reaped.
    package func signal(_ number: CInt) { if end == nil { Glibc.kill(pid, number) } }

    /// Whether the process runs the program `name` and that program ignores or catches the signal (proc(5)).
    package func handlesSignal(_ number: CInt, inProgram name: String) -> Bool {
        guard let file = fopen("/proc/\(pid)/status", "r") else { return false }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        var isRunning = false
        while fgets(&line, CInt(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let words = text.split(whereSeparator: \.isWhitespace)
            guard words.count == 2 else { continue }
            if words[0] == "Name:" { isRunning = words[1] == name }
            guard ["SigIgn:", "SigCgt:"].contains(words[0]), let set = UInt64(words[1], radix: 16) else { continue }
            if isRunning && set >> UInt64(number - 1) & 1 == 1 { return true }
        }
        return false
    }

    /// Waits until the process ends. Waits with poll(2) for the end of standard error, because waitpid(2) takes no
    /// timeout.
    package func waitForEnd(until deadline: Deadline = .usual) throws -> End {
        while true {
            if let end = pollEnd() { return end }
            if deadline.hasPassed { throw HarnessError.timeout("process \(pid) to end; its log:\n\(logText)") }
            // Waits briefly for the end of standard error, and then checks the process itself: another child that was
            // started at the same time may have inherited the write end of the pipe and keep it open.
            errors.waitBriefly()
        }
    }

    /// Closes standard input and waits until the process ends.
    /// - Returns: the unread output and the whole log
    package func finish(until deadline: Deadline = .usual) throws -> Command {
        closeInput()
        let rest = try output.readToEnd(until: deadline, "process \(pid) to end; its log:\n\(logText)")
        let end = try waitForEnd(until: deadline)
        return Command(end: end, text: String(decoding: rest, as: UTF8.self), log: logText)
    }

    /// Returns how the process ended, or nil if it is still running.
    package func pollEnd() -> End? {
        if let end { return end }
        let isClosed = readLog()
        guard let ended = reap(waiting: isClosed) else { return nil }
        _ = readLog()
        return ended
    }

    /// Sends SIGKILL and reaps the process.
    package func kill() {
        if end != nil { return }
        Glibc.kill(pid, SIGKILL)
        _ = reap(waiting: true)
    }

    private func reap(waiting: Bool) -> End? {
        var status: CInt = 0
        var result: pid_t = -1
        repeat { result = waitpid(pid, &status, waiting ? 0 : WNOHANG) } while result < 0 && errno == EINTR
        guard result == pid else { return nil }
        let number = status & 0x7F
        end = number == 0 ? .exit((status >> 8) & 0xFF) : .signal(number)
        return end
    }

    // MARK: Start

    /// `F_SETPIPE_SZ` (fcntl(2)), which Swift does not import.
    private static let setPipeSize: CInt = 1031

    /// Makes a write to a child that has ended fail with EPIPE instead of killing this process.
    private static let ignoreBrokenPipes: Void = { Glibc.signal(SIGPIPE, SIG_IGN) }()

    /// The environment of this process, without variables that would connect a child to the user's agent or service
    /// manager.
    package static var environment: [String: String] {
        var environment: [String: String] = [:]
        var entry = environ
        while let text = entry.pointee.map({ String(cString: $0) }) {
            entry += 1
            let name = String(text.prefix { $0 != "=" })
            let isForeign = ["XDG_", "LARDER_", "NOTIFY_", "LISTEN_", "WATCHDOG_", "JOURNAL_"].contains {
                name.hasPrefix($0)
            }
            if !isForeign { environment[name] = String(text.dropFirst(name.count + 1)) }
        }
        return environment
    }

    /// The variables that a program built with a sanitizer needs.
    package static var sanitizerVariables: [String: String] {
        environment.filter { name, _ in name == "LD_PRELOAD" || name.hasSuffix("SAN_OPTIONS") }
    }

    private static func resolve(_ executable: String) throws -> String {
        if executable.contains("/") { return executable }
        let path = getenv("PATH").map { String(cString: $0) } ?? ""
        for directory in path.split(separator: ":") + ["/usr/sbin", "/usr/bin", "/sbin", "/bin"] {
            let candidate = "\(directory)/\(executable)"
            if access(candidate, X_OK) == 0 { return candidate }
        }
        throw HarnessError("\(executable) is not installed; contrib/test.sh installs what the tests need")
    }

    /// - Parameter streams: the descriptors that become 0, 1, 2 and so on in the child; -1 for /dev/null
    private static func spawn(
        _ path: String, _ arguments: [String], _ environment: [String: String], _ directory: String, _ streams: [CInt]
    ) throws -> pid_t {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // Duplicates the descriptors to numbers of at least 100, so that no dup2 in the child overwrites a descriptor
        // that a later dup2 copies.
        let sources = streams.map { $0 < 0 ? $0 : fcntl($0, F_DUPFD_CLOEXEC, 100) }
        defer { for source in sources where source >= 0 { close(source) } }
        for (number, descriptor) in sources.enumerated() {
            if descriptor >= 0 {
                posix_spawn_file_actions_adddup2(&actions, descriptor, CInt(number))
            } else {
                posix_spawn_file_actions_addopen(&actions, CInt(number), "/dev/null", O_RDWR, 0)
            }
        }
        // SwiftNIO sockets are not closed on exec. A child that inherited the sockets of other tests would keep their
        // connections open after those tests have closed them.
        larder_spawn_closes_from(&actions, CInt(streams.count))

        let words = (["env", "-C", directory, path] + arguments).map { strdup($0) } + [nil]
        let variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in words + variables { free(text) } }
        var pid: pid_t = 0
        let failure = posix_spawn(&pid, "/usr/bin/env", &actions, &attributes, words, variables)
        guard failure == 0 else { throw HarnessError.system("start \(path)", failure) }
        return pid
    }
}
