import CLinuxShims
import LarderPlatform
import Logging
import Glibc

/// Notices when the process cannot start threads any more, and stops the agent on SIGTERM and SIGINT even then.
///
/// Tasks run on threads that Dispatch starts on demand. If the limit of threads is reached, Dispatch waits until a
/// thread can be started, and tasks do not run. This class therefore uses neither tasks nor Dispatch: its thread exists
/// from the start to the end of the process.
final class ThreadGuard: Sendable {
    /// The functions that the thread calls. They must not wait for tasks.
    struct Actions: Sendable {
        /// Begins a graceful stop.
        var stop: @Sendable () -> Void
        /// Called with the reason when no thread can be started, and with nil when one could be started again.
        var threadProblem: @Sendable (_ problem: String?) -> Void
        /// Starts a thread that ends at once. Returns 0, or an error number.
        var probe: @Sendable () -> CInt = { larder_start_thread("probe", 64 << 10, { _ in nil }, nil) }
        /// Ends the process.
        var exit: @Sendable () -> Void = { _exit(EXIT_SUCCESS) }
    }

    /// Times in milliseconds.
    struct Timing: Sendable {
        /// The time between two attempts to start a thread.
        var interval: CInt = 10_000
        /// How long a graceful stop may take if no thread can be started.
        var patience: CInt = 3_500
        /// The time between two attempts to start a thread after ``patience``.
        var stopInterval: CInt = 250
    }

    private let actions: Actions
    private let timing: Timing
    private let logger: Logger

    init(_ actions: Actions, timing: Timing = Timing(), _ logger: Logger) {
        self.actions = actions
        self.timing = timing
        self.logger = logger
    }

    /// Starts the thread, and handles SIGTERM and SIGINT from now on.
    func start() throws(AgentError) {
        let signals = larder_catch_stop()
        guard signals >= 0 else {
            throw AgentError("cannot handle SIGTERM: \(String(cString: strerror(errno)))")
        }
        try start(signals)
    }

    /// - Parameter signals: a descriptor that becomes readable when the agent is to stop
    func start(_ signals: CInt) throws(AgentError) {
        let failure = startThread("guard") { self.run(signals) }
        guard failure != 0 else { return }
        throw AgentError("cannot start a thread: \(String(cString: strerror(failure)))")
    }

    private func run(_ signals: CInt) {
        var descriptor = pollfd(fd: signals, events: Int16(POLLIN), revents: 0)
        var problem: String?
        while poll(&descriptor, 1, timing.interval) <= 0 { _ = canStartThread(&problem) }
        actions.stop()
        poll(nil, 0, timing.patience)
        while canStartThread(&problem) { poll(nil, 0, timing.stopInterval) }
        // Acknowledged changes are on disk. The next start reads them from the journal, as after a crash.
        logger.error(
            "no thread can be started to finish the stop, so the agent exits at once; acknowledged changes are on disk")
        actions.exit()
    }

    /// Attempts to start a thread, and reports a change.
    /// - Parameter problem: why no thread could be started at the last attempt
    private func canStartThread(_ problem: inout String?) -> Bool {
        let failure = actions.probe()
        let new = failure == 0 ? nil : Self.text(failure)
        if new == problem { return failure == 0 }
        problem = new
        actions.threadProblem(new)
        if let new {
            logger.error("\(new)", metadata: ["error": "\(String(cString: strerror(failure)))"])
        } else {
            logger.notice("threads can be started again")
        }
        return failure == 0
    }

    private static func text(_ failure: CInt) -> String {
        """
        cannot start a thread: \(String(cString: strerror(failure))); requests that need one wait; end other processes of \
        the agent's user, or raise the limit of processes and threads (LimitNPROC= and TasksMax= in the unit, ulimit -u \
        in a shell)
        """
    }
}
