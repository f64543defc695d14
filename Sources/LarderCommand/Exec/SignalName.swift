import ArgumentParser
import Glibc

/// A signal on the command line: `HUP`, `SIGHUP` or `1`.
struct SignalName: ExpressibleByArgument, Equatable {
    let number: CInt

    private static let names: [(String, CInt)] = [
        ("HUP", SIGHUP), ("INT", SIGINT), ("QUIT", SIGQUIT), ("USR1", SIGUSR1), ("USR2", SIGUSR2), ("ALRM", SIGALRM),
        ("TERM", SIGTERM), ("CONT", SIGCONT), ("WINCH", SIGWINCH), ("KILL", SIGKILL),
    ]

    /// The names for shell completion.
    static var completions: [String] { names.map { $0.0 } }

    init?(argument: String) {
        let name = argument.uppercased()
        let bare = name.hasPrefix("SIG") ? String(name.dropFirst(3)) : name
        if let known = Self.names.first(where: { $0.0 == bare }) {
            number = known.1
        } else if let number = CInt(argument), (1...64).contains(number) {
            self.number = number
        } else {
            return nil
        }
    }
}
