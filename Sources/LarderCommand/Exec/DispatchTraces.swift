import Glibc
import Synchronization

/// Changes to this process that libdispatch makes or needs, and that programs started from here must not inherit. Its threads
/// change their priority (setpriority(2)), and a variable keeps it from logging each time that the system does not allow that.
enum DispatchTraces {
    private static let variable = "LIBDISPATCH_LOG"
    private static let isVariableOurs = Atomic<Bool>(false)

    /// The nice value that this process was started with.
    private static let inheritedPriority = getpriority(process, 0)

    private static let process = __priority_which_t(PRIO_PROCESS.rawValue)

    /// Keeps libdispatch from logging. Called before its first use, when there is one thread.
    static func begin() {
        _ = inheritedPriority
        guard getenv(variable) == nil else { return }
        setenv(variable, "NO", 1)
        isVariableOurs.store(true, ordering: .relaxed)
    }

    /// Whether a variable of this process's environment is not one that it was started with.
    static func isOwn(_ name: some Sequence<UInt8>) -> Bool {
        isVariableOurs.load(ordering: .relaxed) && name.elementsEqual(variable.utf8)
    }

    /// Gives the calling thread, which is about to start a program, the priority that this process was started with.
    static func restorePriority() {
        // Fails only if the thread's priority is lower, which it is not unless the user made it so.
        _ = setpriority(process, 0, inheritedPriority)
    }
}
