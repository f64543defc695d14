import CLinuxShims
import Glibc
import LarderCommand
import LarderSystemd
import Logging
import Synchronization

/// Functions that affect the whole process.
enum Process {
    /// The name that the process was started with, without its directory.
    static var name: Substring {
        let path = CommandLine.arguments.first ?? ""
        return path[(path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex)...]
    }

    /// Configures the process. Must be called before it has other threads.
    static func prepare() {
        // SIGHUP is ignored until it is trapped. No reload is missed, because SIGHUP is trapped before the settings are
        // read. Blocking the signal instead would not work, because the main thread waits with an empty signal mask
        // (sigsuspend(2) in dispatch_main).
        signal(SIGHUP, SIG_IGN)
        // A write to a disconnected client must fail with EPIPE, and must not end the process.
        signal(SIGPIPE, SIG_IGN)
        larder_set_up_allocator()
        larder_end_by_sent_signals()
        raiseDescriptorLimit()
    }

    /// Raises the soft limit of open files to the hard limit (getrlimit(2)), because each client needs a descriptor.
    private static func raiseDescriptorLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// The maximum number of open files of this process.
    static var descriptorLimit: Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
        return Int(clamping: limit.rlim_cur)
    }

    /// Checks that the process can create `count` threads, by creating them.
    static func checkThreads(_ count: Int) throws(AgentError) {
        let gate = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
        pthread_mutex_init(gate, nil)
        pthread_mutex_lock(gate)
        var threads: [pthread_t] = []
        var failure: CInt = 0
        while threads.count < count {
            var thread = pthread_t()
            failure = pthread_create(
                &thread, nil,
                { gate in
                    guard let gate = gate?.assumingMemoryBound(to: pthread_mutex_t.self) else { return nil }
                    pthread_mutex_lock(gate)
                    pthread_mutex_unlock(gate)
                    return nil
                }, gate)
            if failure != 0 { break }
            threads.append(thread)
        }
        pthread_mutex_unlock(gate)
        for thread in threads { pthread_join(thread, nil) }
        pthread_mutex_destroy(gate)
        gate.deallocate()
        guard failure == 0 else {
            throw AgentError(
                """
                the agent needs \(count) threads, but only \(threads.count) can be started: \
                \(String(cString: strerror(failure))); raise the limit of processes and threads (LimitNPROC= and \
                TasksMax= in a unit, ulimit -u in a shell)
                """)
        }
    }

    /// The lowest level that all loggers write.
    private static let logLevel = ProcessLogLevel(.info)
    private static let isLogging = Atomic(false)

    /// Sends the log to the journal if standard error is connected to it, otherwise to standard error. A later call
    /// changes the level of all loggers.
    static func startLogging(level: Logger.Level) {
        logLevel.value = level
        if isLogging.exchange(true, ordering: .relaxed) { return }
        LoggingSystem.bootstrap(
            { label, provider in
                ServiceLogHandler(
                    label: label, identifier: "larderd", fieldPrefix: "LARDER_",
                    level: logLevel, metadataProvider: provider)
            }, metadataProvider: nil)
    }

    /// Prints an error and exits.
    static func fail(_ error: any Error, status: CInt) -> Never {
        note("\(error)")
        exit(status)
    }

    /// Prints a line on standard error, prefixed with the name of the program.
    static func note(_ text: String) {
        let line = Array("larderd: \(text.printable)\n".utf8)
        _ = write(STDERR_FILENO, line, line.count)
    }
}

/// The user of the packaged service. While this value is in effect, files are opened with the rights of that user, and not
/// with those of root.
struct ServiceUser {
    private static let name = "larder"
    private let rootGroup: gid_t
    private let rootGroups: [gid_t]

    /// Takes effect.
    /// - Returns: nil if root does not run this process, or if the host has no such user
    static func assume() -> ServiceUser? {
        guard geteuid() == 0, let record = getpwnam(name), record.pointee.pw_uid != 0 else { return nil }
        let (user, group) = (record.pointee.pw_uid, record.pointee.pw_gid)
        var groups = [gid_t](repeating: 0, count: Int(max(0, getgroups(0, nil))))
        guard getgroups(CInt(groups.count), &groups) == groups.count else { return nil }
        let root = ServiceUser(rootGroup: getegid(), rootGroups: groups)
        guard initgroups(name, group) == 0, setegid(group) == 0, seteuid(user) == 0 else {
            root.resign()
            return nil
        }
        return root
    }

    /// Restores the rights of root.
    func resign() {
        // The saved user ID is still 0, so these calls cannot fail.
        guard seteuid(0) == 0, setegid(rootGroup) == 0, setgroups(rootGroups.count, rootGroups) == 0 else {
            fatalError("cannot restore the rights of root: \(String(cString: strerror(errno)))")
        }
    }

    /// Whether the user of this process may read a file.
    static func mayRead(_ path: String) -> Bool { faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 }
}

/// Why the agent cannot start, and what to do.
struct AgentError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
