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
        let number = strings(namingChild: false).withPointers { words, variables, _ in
            SignalDispositions.inherited.restore()
            DispatchTraces.restorePriority()
            larder_execvpe(words[0], words, variables)
            return errno
        }
        throw failure(number)
    }

    /// The process group of a started program.
    enum Group {
        /// The group of this process.
        case shared
        /// A new group that the program leads, which must not read from a terminal.
        case separate
        /// A new group that the program leads. It gets the foreground of a terminal, if there is one. The variables of
        /// systemd that name this process name the program instead.
        case own(terminal: CInt?)
    }

    /// Starts the program as a child.
    /// - Parameters:
    ///   - output: the descriptor for its standard output; nil for this process's standard output.
    ///   - errors: the descriptor for its standard error; nil for this process's standard error.
    /// - Returns: the process ID of the child, for which the caller must wait (waitpid(2)).
    /// - Throws: ``Failure`` if the program cannot be run.
    func start(in group: Group, output: CInt? = nil, errors: CInt? = nil) throws(Failure) -> pid_t {
        let (leadsGroup, namesChild, terminal): (Bool, Bool, CInt?) =
            switch group {
            case .shared: (false, false, nil)
            case .separate: (true, false, nil)
            case .own(let terminal): (true, true, terminal)
            }
        OpenDescriptors.inherited.closeOthersOnExec()
        DispatchTraces.restorePriority()
        let (pid, number) = strings(namingChild: namesChild).withPointers { words, variables, processIDs in
            SignalDispositions.inherited.withSets { blocked, defaults in
                var program = larder_program(
                    words: words, variables: variables, process_ids: processIDs, blocked: blocked, defaults: defaults,
                    output: output ?? -1, errors: errors ?? -1, leads_group: leadsGroup, terminal: terminal ?? -1)
                return (larder_start(&program), errno)
            }
        }
        guard pid > 0 else { throw failure(number) }
        return pid
    }

    /// Returns why ``start(in:output:errors:)`` would fail, as far as this can be checked without starting the program;
    /// nil if nothing is wrong.
    func obstacle() -> Failure? {
        if strings(namingChild: true).exceedLimit { return failure(E2BIG) }
        let name = words[0]
        if name.contains("/") { return Self.isProgram(name) ? nil : failure(errno) }
        let path = getenv("PATH").map { String(cString: $0) } ?? "/bin:/usr/bin"
        let isFound = path.split(separator: ":", omittingEmptySubsequences: false).contains {
            Self.isProgram($0.isEmpty ? name : "\($0)/\(name)")
        }
        return isFound ? nil : failure(ENOENT)
    }

    /// Whether a file can be executed. If not, sets errno.
    private static func isProgram(_ path: String) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0, access(path, X_OK) == 0 else { return false }
        if status.st_mode & S_IFMT == S_IFREG { return true }
        errno = EACCES
        return false
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

    private func strings(namingChild: Bool) -> ProgramStrings {
        ProgramStrings(words: words, variables: variables, namingChild: namingChild)
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
