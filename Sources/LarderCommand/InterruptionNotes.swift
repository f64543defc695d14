import LarderClientCore
import Synchronization

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
