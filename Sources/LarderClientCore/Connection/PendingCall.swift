import LarderJSON
import LarderProtocol
import NIOCore

/// How a call ended.
enum CallOutcome: Sendable {
    /// The result of the request.
    case result(JSONValue)
    /// An error that the agent returned or the client detected.
    case failure(LarderClientError)
    /// The connection ended before any byte of the request was written, so the call can be made on another connection.
    case notSent
}

/// The work that the connection does for a call besides passing its reply to the caller.
enum CallPurpose: Sendable {
    /// No other work.
    case answer
    /// `config.subscribe`: pass the subsequent events to the receiver.
    case subscription(any EventReceiver)
    /// `image.get`: if the reply arrives after the call was abandoned, release the lease that the reply grants. Until
    /// the reply, pass progress notifications to the closure, if any.
    case lease((@Sendable (ImageGet.Progress) -> Void)?)
    /// `image.prefetch`: until the reply, pass progress notifications to the closure.
    case prefetch(@Sendable (ImageProgress) -> Void)
}

/// A call from its start until its reply. Used only on the connection's event loop.
struct PendingCall {
    /// The encoded request with its LF; nil once it is written.
    var line: ByteBuffer?
    /// The size of the request in bytes.
    let byteCount: Int
    let purpose: CallPurpose
    /// Called with the outcome. Nil once the call is abandoned, although the agent's reply may then still arrive.
    var caller: (@Sendable (CallOutcome) -> Void)?
    /// Fires when the timeout of the call passes.
    var timer: Scheduled<Void>?

    /// Whether the request was written.
    var isSent: Bool { line == nil }

    var isAbandoned: Bool { caller == nil }

    /// Passes the outcome to the caller and stops the timer.
    func resume(_ outcome: CallOutcome) {
        timer?.cancel()
        caller?(outcome)
    }
}
