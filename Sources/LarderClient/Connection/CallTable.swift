import NIOCore

/// The calls of a connection from their start until their replies, and the order in which they are written. It performs no I/O.
struct CallTable {
    /// The maximum number of requests that the agent owes a reply. Further calls wait.
    private let maximumInFlight: Int
    private var calls: [Int: PendingCall] = [:]
    /// The IDs of the calls that are not written yet, in order. A call that was abandoned is still in it.
    private var waiting = CircularBuffer<Int>()
    /// How many requests were written and not answered, those of abandoned calls included.
    private(set) var inFlight = 0

    init(maximumInFlight: Int) { self.maximumInFlight = maximumInFlight }

    /// Returns a call that is neither answered nor abandoned.
    func active(_ id: Int) -> PendingCall? { calls[id].flatMap { $0.isAbandoned ? nil : $0 } }

    /// Adds a call that is not written yet.
    mutating func add(_ call: PendingCall, _ id: Int) {
        calls[id] = call
        waiting.append(id)
    }

    /// Takes the request to write next. It counts as in flight afterwards.
    /// - Returns: nil if no request waits or the maximum is in flight
    mutating func nextLine() -> ByteBuffer? {
        while inFlight < maximumInFlight, let id = waiting.popFirst() {
            guard let line = calls[id]?.line else { continue }
            calls[id]?.line = nil
            inFlight += 1
            return line
        }
        return nil
    }

    /// Removes the call that a reply belongs to.
    /// - Returns: nil if no request with this ID is in flight
    mutating func answer(_ id: Int) -> PendingCall? {
        guard let call = calls[id], call.isSent else { return nil }
        calls[id] = nil
        inFlight -= 1
        return call
    }

    /// Removes the call with the longest request in flight.
    mutating func answerLongest() -> PendingCall? {
        let sent = calls.filter { $0.value.isSent }
        return sent.max { $0.value.byteCount < $1.value.byteCount }.flatMap { answer($0.key) }
    }

    /// Takes the caller of a call away. A call that is in flight stays until its reply, without its caller.
    /// - Returns: the call as it was; nil if it was answered or abandoned before
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

    /// Removes all calls.
    mutating func removeAll() -> [PendingCall] {
        defer {
            calls = [:]
            waiting.removeAll()
        }
        return Array(calls.values)
    }
}
