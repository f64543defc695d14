import Glibc
import LarderClientCore
import Synchronization

/// The signals by which a user or the service manager ends the program.
enum Interruption {
    private static let numbers = [SIGINT, SIGTERM, SIGHUP]

    /// Starts work that the first signal cancels, so that the program can report its results. A second signal ends the
    /// program at once. Signals that were already ignored when this process was started stay ignored.
    /// - Returns: the work, and a task that waits for the first signal and returns its number.
    static func cancelling<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) throws(Failure) -> (work: Task<Value, any Error>, signal: Task<CInt, Never>) {
        let pipe = try SignalPipe()
        let caught = numbers.filter { !SignalDispositions.inherited.ignores($0) }
        pipe.catchSignals(caught)
        let task = Task { try await work() }
        let waiting = Task {
            await onOwnThread {
                while true {
                    for case .signal(let number) in pipe.wait(nil) {
                        for number in caught { signal(number, SIG_DFL) }
                        task.cancel()
                        return number
                    }
                }
            }
        }
        return (task, waiting)
    }
}

/// Reports on standard error that the agent or the namespace is unavailable. It reports each new reason once, not each
/// attempt.
final class InterruptionNotes: Sendable {
    private let noted = Mutex<String?>(nil)

    func interrupted(_ interruption: ConfigInterruption) {
        note(interruption.error.reason, "reconnecting")
    }

    /// Reports that the settings no longer declare the namespace, or no longer let this user read it.
    func withdrawn(_ namespace: String, _ error: LarderClientError) {
        if error.remoteError?.code == .unknownNamespace {
            note("namespace \"\(namespace)\" was removed from the settings", "retrying until it is back")
        } else {
            note(error.reason, "retrying until the namespace may be read")
        }
    }

    private func note(_ reason: String, _ remedy: String) {
        let isNew = noted.withLock { noted in
            defer { noted = reason }
            return noted != reason
        }
        if isNew { Output.note("\(reason); \(remedy)") }
    }

    func resumed() {
        noted.withLock { $0 = nil }
    }
}
