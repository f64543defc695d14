import CLinuxShims
import Glibc

/// A program with its arguments. It is started directly, without a shell.
struct Program {
    /// The name of the program and its arguments. The program is searched for in PATH unless its name contains a slash.
    let words: [String]
    /// Variables for the program. They are added to the environment of this process, and replace variables with the
    /// same name.
    var variables = EnvironmentVariables()

    /// Replaces this process with the program (execve(2)).
    /// - Throws: ``Failure`` if the program cannot be run; otherwise it does not return.
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
    ///   - hasOwnGroup: whether the program leads a new process group instead of joining this process's group.
    ///   - output: the descriptor for its standard output; nil for this process's standard output.
    ///   - errors: the descriptor for its standard error; nil for this process's standard error.
    /// - Returns: the process ID of the child, for which the caller must wait (waitpid(2)).
    /// - Throws: ``Failure`` if the program cannot be run.
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

    /// The failure for an `errno`: why the program cannot be run, with the exit status that shells use for this error.
    private func failure(_ number: CInt) -> Failure {
        let name = words[0].printable
        switch number {
        case ENOENT:
            return Failure(.programNotFound, "\(name): program not found; pass its path, or correct PATH")
        case E2BIG:
            return Failure(
                .programFailed,
                "\(name): the arguments and the environment exceed the limit of execve(2); select a part of the "
                    + "configuration with --path, or write it to a file with larder render")
        default:
            return Failure(.programFailed, "cannot run \(name): \(String(cString: strerror(number)))")
        }
    }

    /// Calls `body` with the arguments and the environment as null-terminated arrays of C strings.
    private func withPointers<Result>(
        _ body: ([UnsafeMutablePointer<CChar>?], [UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        let words = words.map { strdup($0) } + [nil]
        let own = variables.names.map { strdup("\($0)=\(variables.values[$0] ?? "")") }
        defer { for text in words + own { free(text) } }
        return body(words, Self.inheritedVariables(without: variables) + own + [nil])
    }

    /// The environment of this process, byte for byte, without the variables in `replaced`.
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

/// How a child ended, as reported by waitpid(2).
enum ProgramEnd: Equatable {
    case exited(CInt)
    case killed(CInt)

    /// Decodes the waitpid(2) status of a child that has ended.
    init(waitStatus: CInt) {
        let number = waitStatus & 0x7F
        self = number == 0 ? .exited((waitStatus >> 8) & 0xFF) : .killed(number)
    }

    /// The exit status with which a shell reports this end.
    var status: CInt {
        switch self {
        case .exited(let status): status
        case .killed(let number): 128 + number
        }
    }

    /// The end of the program for messages: `exit status 1`, `signal 9 (Killed)`.
    var text: String {
        switch self {
        case .exited(let status): "exit status \(status)"
        case .killed(let number): "signal \(number) (\(String(cString: strsignal(number))))"
        }
    }

    /// Ends this process in the way that the program ended.
    func endThisProcess() -> Never {
        if self == .killed(SIGINT) { Interruption.end(by: SIGINT) }
        exit(status)
    }
}
