import LarderJSON
import LarderProtocol
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

/// What a call is about, as far as the connection has to know.
enum CallPurpose: Sendable {
    /// Its answer.
    case answer
    /// `config.subscribe`: the events that follow the reply go to the receiver.
    case subscription(any EventReceiver)
    /// `image.get`: a lease that nobody wants any more is given back.
    case lease
    /// `image.prefetch`: what comes before the reply goes to the closure.
    case prefetch(@Sendable (ImageProgress) -> Void)
}

/// A call from its start until its reply. It lives on the connection's event loop.
struct PendingCall {
    /// The encoded request with its LF until it is written; then nil.
    var line: ByteBuffer?
    /// The size of the request.
    let byteCount: Int
    /// What it is about.
    let purpose: CallPurpose
    /// Told how it ended; nil where nobody waits any more, though the agent still owes the reply.
    var caller: (@Sendable (CallOutcome) -> Void)?
    /// The end of the call's time.
    var timer: Scheduled<Void>?

    /// Whether the request left.
    var isSent: Bool { line == nil }

    /// Whether nobody waits for the reply any more.
    var isAbandoned: Bool { caller == nil }

    /// Tells who waits how it ended.
    func resume(_ outcome: CallOutcome) {
        timer?.cancel()
        caller?(outcome)
    }
}
