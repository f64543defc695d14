import Glibc

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
