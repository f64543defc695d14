import CLinuxShims
import Glibc
import LarderPlatform

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
        if self == .killed(SIGINT) { SignalDispositions.endProcess(by: SIGINT) }
        exit(status)
    }
}

/// The arguments and the environment of a program as C strings, for execve(2).
final class ProgramStrings {
    private typealias Pointer = UnsafeMutablePointer<CChar>

    private let words: [Pointer?]
    /// The strings of the environment that this object has allocated.
    private let own: [Pointer?]
    /// The environment: strings of this process's environment, and ``own``.
    private let variables: [Pointer?]
    /// The places for the process ID of the program in ``own``.
    private let processIDs: [Pointer?]

    /// - Parameters:
    ///   - variables: variables that are added to the environment of this process, and replace variables with the same
    ///     name.
    ///   - namingChild: whether the program is a child for which systemd's variables are meant. Those that name this
    ///     process then name the child.
    init(words: [String], variables: EnvironmentVariables, namingChild: Bool) {
        self.words = words.map { strdup($0) }
        var omitted: [String] = []
        var own: [Pointer?] = variables.names.map { strdup("\($0)=\(variables.values[$0] ?? "")") }
        var places: [Pointer?] = []
        if namingChild {
            for name in Self.variablesWithProcessID where variables.values[name] == nil {
                guard let value = getenv(name), String(cString: value) == "\(getpid())" else { continue }
                let text = strdup("\(name)=" + String(repeating: "0", count: Self.processIDLength))
                own.append(text)
                places.append(text.map { $0 + name.utf8.count + 1 })
                // LISTEN_PIDFDID identifies the same process as LISTEN_PID, and is optional.
                omitted += [name] + (name == "LISTEN_PID" ? ["LISTEN_PIDFDID"] : [])
            }
        }
        self.own = own
        processIDs = places
        self.variables = Self.inherited { variables.values[$0] == nil && !omitted.contains($0) } + own
    }

    deinit { for text in words + own { free(text) } }

    /// Calls `body` with the arguments, the environment and the places for the process ID, as null-terminated arrays.
    func withPointers<Result>(
        _ body: (
            UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>,
            UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
        ) -> Result
    ) -> Result {
        var (words, variables, places) = (words + [nil], variables + [nil], processIDs + [nil])
        return body(&words, &variables, &places)
    }

    /// Whether execve(2) would refuse the strings with E2BIG: one string has at most 32 pages, and all strings with
    /// their pointers a quarter of the limit for the stack, at most 6 MiB.
    var exceedLimit: Bool {
        let lengths = (words + variables).map { $0.map { strlen($0) + 1 } ?? 0 }
        let total = lengths.reduce(0) { $0 + $1 + MemoryLayout<Pointer>.size }
        return (lengths.max() ?? 0) > 32 * Int(getpagesize()) || total > min(sysconf(CInt(_SC_ARG_MAX)), 6 << 20)
    }

    /// Variables of systemd that name the process that they are meant for: sd_listen_fds(3), sd_watchdog_enabled(3).
    private static let variablesWithProcessID = ["LISTEN_PID", "WATCHDOG_PID"]
    /// The room for a process ID that ``larder_start(_:)`` requires.
    private static let processIDLength = 12

    /// The environment of this process, byte for byte, without the variables that `isKept` refuses.
    private static func inherited(_ isKept: (String) -> Bool) -> [Pointer?] {
        var kept: [Pointer?] = []
        var entry = environ
        while let text = entry.pointee {
            entry += 1
            let name = UnsafeBufferPointer(start: text, count: strlen(text)).prefix { $0 != CChar(UInt8(ascii: "=")) }
            let bytes = name.lazy.map { UInt8(bitPattern: $0) }
            let isReplaced = String(validating: bytes, as: UTF8.self).map { !isKept($0) } ?? false
            if !isReplaced, !DispatchTraces.isOwn(bytes) { kept.append(text) }
        }
        return kept
    }
}

/// The open descriptors of this process that survive execve(2) unless they are close-on-exec.
///
/// The network library opens descriptors that are not close-on-exec, such as that of the connection to the agent. A
/// started program must inherit only the descriptors with which this process was started, such as a file that a shell
/// opened for it.
struct OpenDescriptors {
    // An array, because this value is created at every start, and the first use of a `Set` makes the runtime search all
    // linked code for protocol conformances.
    private let numbers: [CInt]

    /// The descriptors with which this process was started. ``CommandEntry`` must access this before any other code
    /// opens a descriptor.
    static let inherited = OpenDescriptors()

    private init() { numbers = Self.current() }

    /// Makes all open descriptors close-on-exec, except those in this list.
    func closeOthersOnExec() {
        for number in Self.current() where !numbers.contains(number) {
            let flags = fcntl(number, F_GETFD)
            // fcntl(2) fails if another thread has closed the descriptor since it was listed.
            if flags >= 0 { _ = fcntl(number, F_SETFD, flags | FD_CLOEXEC) }
        }
    }

    /// The descriptors that are open now, from `/proc/self/fd`; the standard streams if `/proc` is not available.
    private static func current() -> [CInt] {
        let directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0, let names = try? DirectoryListing.names(closing: directory) else { return [0, 1, 2] }
        return names.compactMap { CInt(String(decoding: $0, as: UTF8.self)) }.filter { $0 != directory }
    }
}

/// Hides changes that libdispatch makes to this process from the programs that this process starts.
///
/// The threads of libdispatch change their priority (setpriority(2)), and log an error each time the system denies it.
/// This type disables that log with an environment variable. A started program gets neither the variable nor the
/// changed priority.
enum DispatchTraces {
    private static let variable = "LIBDISPATCH_LOG"
    /// Whether this process added the variable. The first use adds it unless it exists.
    private static let isVariableOurs = getenv(variable) == nil && setenv(variable, "NO", 1) == 0

    /// The nice value with which this process was started.
    private static let inheritedPriority = getpriority(process, 0)

    private static let process = __priority_which_t(PRIO_PROCESS.rawValue)

    /// Keeps libdispatch from logging. Must be called before the first use of libdispatch, and while the process has
    /// one thread, because setenv(3) is not thread-safe.
    static func begin() {
        _ = (inheritedPriority, isVariableOurs)
    }

    /// Whether `name` is the name of the environment variable that disables the log, and this process added that
    /// variable.
    static func isOwn(_ name: some Sequence<UInt8>) -> Bool {
        isVariableOurs && name.elementsEqual(variable.utf8)
    }

    /// Gives the calling thread, which is about to start a program, the nice value with which this process was started.
    static func restorePriority() {
        // setpriority(2) fails only if a user has raised the thread's nice value (renice(1)). The program then gets the
        // raised value.
        _ = setpriority(process, 0, inheritedPriority)
    }
}
