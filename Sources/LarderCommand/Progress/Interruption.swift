import LarderClient
import Glibc

/// The first of the signals by which a person or the service manager ends a program: there is time to say what was done.
/// The second one ends it at once.
struct Interruption {
    private static let numbers = [SIGINT, SIGTERM, SIGHUP]
    private let pipe: SignalPipe
    private let caught: [CInt]

    /// Catches the signals from now on, but for those that this program is to ignore.
    init() throws(Failure) {
        pipe = try SignalPipe()
        caught = Self.numbers.filter { !SignalDispositions.inherited.ignores($0) }
        pipe.catchSignals(caught)
    }

    /// Waits for one.
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

    /// Ends this process as a signal ends one that does not catch it: a shell stops its script at Ctrl-C only where the
    /// program that it waits for died of it.
    static func end(by number: CInt) -> Never {
        signal(number, SIG_DFL)
        // The threads that run tasks block it.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(number)
        exit(128 + number)
    }
}
