import JSON
import NIOCore

/// How a call ended.
enum CallOutcome: Sendable {
    /// The agent's result.
    case result(JSONValue)
    /// The agent's error, or this side's.
    case failure(LarderClientError)
    /// The connection was over before a byte of the request was written: it can go over another one.
    case notSent
}

/// A call from its start until its reply. It lives on the connection's event loop.
struct PendingCall {
    /// Who waits for the reply.
    enum Receiver {
        case caller(CheckedContinuation<CallOutcome, Never>)
        /// `config.subscribe`: the events that follow the reply go to the mailbox.
        case subscriber(SnapshotMailbox, CheckedContinuation<CallOutcome, Never>)
        /// Nobody any more; the agent still owes the reply.
        case nobody(wasSubscriber: Bool)
    }

    /// The encoded request with its LF until it is written; then nil.
    var line: ByteBuffer?
    /// The size of the request.
    let byteCount: Int
    /// Who waits.
    var receiver: Receiver
    /// The end of the call's time.
    var timer: Scheduled<Void>?

    /// Whether the request left.
    var isSent: Bool { line == nil }

    /// Tells who waits how it ended.
    func resume(_ outcome: CallOutcome) {
        timer?.cancel()
        switch receiver {
        case .caller(let continuation), .subscriber(_, let continuation): continuation.resume(returning: outcome)
        case .nobody: break
        }
    }
}
