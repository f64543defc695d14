import CLinuxShims
import Glibc

/// A program with its arguments, to be started as it is: no shell reads them.
struct Program {
    /// The program, looked for in PATH unless its name has a slash, and its arguments.
    let words: [String]
    /// Variables for it, over those of this process.
    var variables = EnvironmentVariables()

    /// Becomes the program: the same process from now on.
    /// - Throws: ``Failure`` where it cannot be run; otherwise it does not return.
    func replaceThisProcess() throws(Failure) -> Never {
        OpenDescriptors.inherited.closeOthersOnExec()
        let number = withPointers { words, variables in
            SignalDispositions.inherited.restore()
            DispatchTraces.restorePriority()
            larder_execvpe(words[0], words, variables)
            return errno
        }
        throw failure(number)
    }

    /// Starts the program as a child.
    /// - Parameters:
    ///   - hasOwnGroup: whether it leads a process group of its own, or belongs to this process's.
    ///   - output: where what it prints goes; nil for standard output.
    ///   - errors: where its errors go; nil for standard error.
    /// - Returns: its process id; the caller waits for it.
    /// - Throws: ``Failure`` where it cannot be run.
    func start(hasOwnGroup: Bool, output: CInt? = nil, errors: CInt? = nil) throws(Failure) -> pid_t {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        SignalDispositions.inherited.apply(to: &attributes)
        var flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        if hasOwnGroup { flags |= POSIX_SPAWN_SETPGROUP }
        posix_spawnattr_setflags(&attributes, Int16(flags))

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let output { posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) }
        if let errors { posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO) }

        OpenDescriptors.inherited.closeOthersOnExec()
        DispatchTraces.restorePriority()
        var pid: pid_t = 0
        let number = withPointers { words, variables in
            posix_spawnp(&pid, words[0]!, &actions, &attributes, words, variables)
        }
        guard number == 0 else { throw failure(number) }
        return pid
    }

    /// Why it cannot be run, with the exit status that shells give for that.
    private func failure(_ number: CInt) -> Failure {
        let name = words[0].printable
        switch number {
        case ENOENT:
            return Failure(.programNotFound, "\(name): no such program; name it with its path, or see to PATH")
        case E2BIG:
            return Failure(
                .programFailed,
                "\(name): the arguments and the environment are more than the system passes on (execve(2)); pass a part "
                    + "of the configuration with --path, or write it to a file with larder render")
        default:
            return Failure(.programFailed, "\(name) cannot be run: \(String(cString: strerror(number)))")
        }
    }

    /// Calls `body` with the arguments and the environment as system calls want them.
    private func withPointers<Result>(
        _ body: ([UnsafeMutablePointer<CChar>?], [UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        let words = words.map { strdup($0) } + [nil]
        let own = variables.names.map { strdup("\($0)=\(variables.values[$0] ?? "")") }
        defer { for text in words + own { free(text) } }
        return body(words, Self.inheritedVariables(without: variables) + own + [nil])
    }

    /// This process's own environment, byte for byte, but for the variables that others take the place of.
    private static func inheritedVariables(
        without replaced: EnvironmentVariables
    ) -> [UnsafeMutablePointer<CChar>?] {
        var kept: [UnsafeMutablePointer<CChar>?] = []
        var entry = environ
        while let text = entry.pointee {
            entry += 1
            let name = UnsafeBufferPointer(start: text, count: strlen(text)).prefix { $0 != CChar(UInt8(ascii: "=")) }
            let isReplaced =
                String(validating: name.lazy.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                .map { replaced.values[$0] != nil } ?? false
            if !isReplaced, !DispatchTraces.isOwn(name.lazy.map { UInt8(bitPattern: $0) }) { kept.append(text) }
        }
        return kept
    }
}

/// How a child ended, as waitpid(2) tells it.
enum ProgramEnd: Equatable {
    case exited(CInt)
    case killed(CInt)

    /// Reads a status of waitpid(2) for a child that has ended.
    init(waitStatus: CInt) {
        let number = waitStatus & 0x7F
        self = number == 0 ? .exited((waitStatus >> 8) & 0xFF) : .killed(number)
    }

    /// The exit status that says so to a shell.
    var status: CInt {
        switch self {
        case .exited(let status): status
        case .killed(let number): 128 + number
        }
    }

    /// For people: `exit status 1`, `signal 9 (Killed)`.
    var text: String {
        switch self {
        case .exited(let status): "exit status \(status)"
        case .killed(let number): "signal \(number) (\(String(cString: strsignal(number))))"
        }
    }

    /// Ends this process as the program did.
    func endThisProcess() -> Never {
        if self == .killed(SIGINT) { Interruption.end(by: SIGINT) }
        exit(status)
    }
}
