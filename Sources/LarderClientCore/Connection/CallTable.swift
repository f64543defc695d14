import LarderJSON
import LarderProtocol
import NIOCore

/// The calls of a connection, from their start until their replies, and the order in which their requests are written.
/// The table performs no I/O.
struct CallTable {
    /// The maximum number of requests in flight. Further calls wait.
    private let maximumInFlight: Int
    private var calls: [Int: PendingCall] = [:]
    /// The IDs of calls whose requests were not written yet, in order. ``next()`` skips the IDs of abandoned calls.
    private var waiting = CircularBuffer<Int>()
    /// As ``waiting``, for long calls.
    private var waitingLong = CircularBuffer<Int>()
    /// The number of requests that were written and not yet answered, including those of abandoned calls.
    private(set) var inFlight = 0
    private var longInFlight = 0

    /// - Parameter maximumInFlight: the maximum number of requests in flight. Less than 1 counts as 1, because no request
    ///   could be sent otherwise, and the timeout of a call only starts when its request is sent.
    init(maximumInFlight: Int) { self.maximumInFlight = max(1, maximumInFlight) }

    /// The maximum number of requests of long calls in flight: three quarters of all, so that they do not delay other
    /// calls.
    private var maximumLongInFlight: Int { max(1, maximumInFlight - maximumInFlight / 4) }

    /// The IDs and timeouts of calls whose requests were not written yet.
    var waitingCalls: [(id: Int, timeout: Duration?)] {
        (Array(waiting) + waitingLong).compactMap { id in calls[id].map { (id, $0.timeout) } }
    }

    /// Whether a call whose request was written waits for its reply.
    var isAwaitingReply: Bool { calls.values.contains { $0.isSent && !$0.isAbandoned } }

    /// Returns the call with an ID; nil if it was answered or abandoned.
    func active(_ id: Int) -> PendingCall? { calls[id].flatMap { $0.isAbandoned ? nil : $0 } }

    /// Adds a call whose request is not written yet.
    mutating func add(_ call: PendingCall, _ id: Int) {
        calls[id] = call
        if call.isLong { waitingLong.append(id) } else { waiting.append(id) }
    }

    /// Returns the request to write next and counts it as in flight. Requests are written in the order of their IDs,
    /// but other calls overtake long calls that wait because of ``maximumLongInFlight``.
    /// - Returns: the ID, the line and the timeout of the request; nil if no request may be written now
    mutating func next() -> (id: Int, line: ByteBuffer, timeout: Duration?)? {
        while inFlight < maximumInFlight {
            let long = longInFlight < maximumLongInFlight ? waitingLong.first : nil
            let isLong = long.map { id in waiting.first.map { id < $0 } ?? true } ?? false
            guard let id = isLong ? waitingLong.popFirst() : waiting.popFirst() else { return nil }
            guard let call = calls[id], let line = call.line else { continue }
            calls[id]?.line = nil
            inFlight += 1
            if isLong { longInFlight += 1 }
            return (id, line, call.timeout)
        }
        return nil
    }

    /// Replaces the timer of a call that was not abandoned. Nil stops it.
    mutating func setTimer(_ timer: Scheduled<Void>?, of id: Int) {
        calls[id]?.timer?.cancel()
        calls[id]?.timer = timer
    }

    /// Removes the call that a reply answers, and returns it.
    /// - Returns: nil if no request with this ID is in flight
    mutating func answer(_ id: Int) -> PendingCall? {
        guard let call = calls[id], call.isSent else { return nil }
        calls[id] = nil
        inFlight -= 1
        if call.isLong { longInFlight -= 1 }
        return call
    }

    /// Removes the call in flight with the longest request, and returns it.
    mutating func answerLongest() -> PendingCall? {
        let sent = calls.filter { $0.value.isSent }
        return sent.max { $0.value.byteCount < $1.value.byteCount }.flatMap { answer($0.key) }
    }

    /// Abandons a call: its caller no longer gets an outcome. A call in flight stays in the table until its reply.
    /// - Returns: the call as it was before, with its caller; nil if it was already answered or abandoned
    mutating func abandon(_ id: Int) -> PendingCall? {
        guard let call = active(id) else { return nil }
        if call.isSent {
            calls[id]?.caller = nil
            calls[id]?.timer = nil
        } else {
            calls[id] = nil
        }
        return call
    }

    mutating func removeAll() -> [PendingCall] {
        defer {
            calls = [:]
            waiting.removeAll()
            waitingLong.removeAll()
        }
        return Array(calls.values)
    }
}

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
    var method = ""
    /// The encoded request with its LF; nil once it is written.
    var line: ByteBuffer?
    /// The size of the request in bytes.
    let byteCount: Int
    let purpose: CallPurpose
    /// Whether the agent may take long to answer, because it waits for a condition or for the network.
    var isLong = false
    /// The maximum time from writing the request until the reply; nil for no limit.
    var timeout: Duration?
    /// Called with the outcome. Nil once the call is abandoned, although the agent's reply may then still arrive.
    var caller: (@Sendable (CallOutcome) -> Void)?
    /// Fires when the timeout of the call passes. Nil without a timeout, and usually before the request is written.
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

/// Receives the events of a subscription. Its methods are called on the event loop of the connection.
protocol EventReceiver: Sendable {
    /// Receives an event.
    /// - Throws: `protocolViolation` if the event does not continue the previous ones. The caller must then close the
    ///   connection.
    func receive(_ event: ConfigEvent) throws(LarderClientError)

    /// Called when the subscription has ended with an error.
    func interrupt(_ error: LarderClientError)

    /// Called when the agent has ended the subscription because the settings changed.
    func withdraw()
}

/// A subscription at the agent. It ends when the last reference to this object is released.
final class OpenSubscription: Sendable {
    private let connection: Connection
    private let number: Int

    init(connection: Connection, number: Int) {
        self.connection = connection
        self.number = number
    }

    deinit { connection.unsubscribe(number) }
}
