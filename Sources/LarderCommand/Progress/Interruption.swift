import LarderClient
import Glibc

/// Catches the first signal by which a user or the service manager ends the program, so that the program can report its
/// results. The second signal ends it at once.
struct Interruption {
    private static let numbers = [SIGINT, SIGTERM, SIGHUP]
    private let pipe: SignalPipe
    private let caught: [CInt]

    /// Catches the signals, except those that this process was started to ignore.
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
                for case .signal(let number, _) in pipe.wait(nil) {
                    for number in caught { signal(number, SIG_DFL) }
                    return number
                }
            }
        }
    }

    /// Ends this process by a signal. A shell aborts its script at Ctrl-C only if the program that it waits for was
    /// killed by the signal.
    static func end(by number: CInt) -> Never {
        signal(number, SIG_DFL)
        // The threads of the task pool block signals.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(number)
        exit(128 + number)
    }
}
