import LarderClient
import Synchronization

/// Notes on standard error about the agent's absence: one for each new reason, not one for each attempt.
final class InterruptionNotes: Sendable {
    private let noted = Mutex<String?>(nil)

    func interrupted(_ interruption: ConfigInterruption) {
        let reason = interruption.error.reason
        let isNew = noted.withLock { noted in
            defer { noted = reason }
            return noted != reason
        }
        if isNew { Output.note("\(reason); connecting again") }
    }

    func resumed() {
        noted.withLock { $0 = nil }
    }
}
