import LarderClientCore
import Glibc

/// Catches the first signal by which a user or the service manager ends the program, so that the program can report its
/// results. A second signal ends the program at once.
struct Interruption {
    private static let numbers = [SIGINT, SIGTERM, SIGHUP]
    private let pipe: SignalPipe
    private let caught: [CInt]

    /// Catches the signals, except those that were already ignored when this process was started.
    init() throws(Failure) {
        pipe = try SignalPipe()
        caught = Self.numbers.filter { !SignalDispositions.inherited.ignores($0) }
        pipe.catchSignals(caught)
    }

    /// Waits for the first signal.
    /// - Returns: its number.
    func first() async -> CInt {
        await onOwnThread { [pipe, caught] in
            while true {
                for case .signal(let number) in pipe.wait(nil) {
                    for number in caught { signal(number, SIG_DFL) }
                    return number
                }
            }
        }
    }

    /// Ends this process by a signal. After Ctrl-C, a shell aborts its script only if the program for which the shell
    /// waits was killed by the signal.
    static func end(by number: CInt) -> Never {
        signal(number, SIG_DFL)
        // The threads that run tasks block signals, so the signal is unblocked first.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(number)
        exit(128 + number)
    }
}
