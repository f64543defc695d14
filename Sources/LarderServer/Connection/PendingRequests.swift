import LarderProtocol
import NIOCore

/// What a request required when it was admitted. The rules may change while it waits.
struct Admission: Sendable {
    let method: String
    let requirement: Requirement

    init(_ method: String, _ requirement: Requirement) {
        self.method = method
        self.requirement = requirement
    }
}

/// A request whose reply is not written yet. Used on its connection's event loop only.
final class PendingRequest {
    /// Nil for a notification.
    let id: RequestID?
    /// The rights with which the request was admitted.
    let admission: Admission
    let slot: BatchSlot?
    let lifetime: PendingRequests.Lifetime
    /// Bytes of its line that count towards the user's limit, 0 for a short line.
    let heldBytes: Int
    /// Why the peer may no longer have the reply. It replaces any result.
    var denial: WireError?
    /// Why the request was cancelled last.
    fileprivate(set) var cancellation: WireError?
    /// Stops the work of the request.
    var onCancel: ((WireError) -> Void)?
    /// The timer of its deadline.
    var deadline: Scheduled<Void>?

    init(
        id: RequestID?, admission: Admission, slot: BatchSlot?, lifetime: PendingRequests.Lifetime, heldBytes: Int
    ) {
        self.id = id
        self.admission = admission
        self.slot = slot
        self.lifetime = lifetime
        self.heldBytes = heldBytes
    }

    /// Cancels the request. It still gets a reply, from its work or because the deadline has passed.
    func cancel(_ reason: WireError) {
        cancellation = reason
        onCancel?(reason)
    }
}

/// The requests of one connection whose replies are not written yet. Each is completed once.
struct PendingRequests {
    /// Identifies a pending request. A connection uses each ticket once.
    typealias Ticket = Int

    /// The fate of a request when its connection ends.
    enum Lifetime {
        /// The request is cancelled.
        case connection
        /// The request is carried out to its end, and keeps its place until then.
        case committed
    }

    /// The step to take when a request has a result.
    enum Completion {
        /// Write the reply.
        case answer(PendingRequest)
        /// Return the place of a request whose connection is closed.
        case orphaned
        /// Nothing: the request was completed before.
        case unknown
    }

    private var requests: [Ticket: PendingRequest] = [:]
    private var lastTicket = 0
    /// The committed requests of a connection that is closed.
    private var orphaned: Set<Ticket> = []

    var count: Int { requests.count }
    var isEmpty: Bool { requests.isEmpty }

    subscript(ticket: Ticket) -> PendingRequest? { requests[ticket] }

    mutating func add(_ request: PendingRequest) -> Ticket {
        lastTicket += 1
        requests[lastTicket] = request
        return lastTicket
    }

    /// Removes a request that has a result, and stops its timer.
    mutating func complete(_ ticket: Ticket) -> Completion {
        guard let request = requests.removeValue(forKey: ticket) else {
            return orphaned.remove(ticket) == nil ? .unknown : .orphaned
        }
        request.deadline?.cancel()
        return .answer(request)
    }

    /// The requests with an id. A client may use one several times.
    func tickets(id: RequestID) -> [Ticket] {
        requests.compactMap { $0.value.id == id ? $0.key : nil }.sorted()
    }

    func tickets(_ lifetime: Lifetime) -> [Ticket] {
        requests.compactMap { $0.value.lifetime == lifetime ? $0.key : nil }.sorted()
    }

    /// Drops all requests because the connection is closed. Committed ones become orphaned and keep their places.
    /// Otherwise a client that repeatedly connects, sends a change and disconnects would have no limit.
    /// - Returns: the number of requests, the places to return now, and the bytes of lines to release.
    mutating func connectionClosed() -> (requests: Int, places: Int, bytes: Int) {
        var (places, bytes) = (0, 0)
        for (ticket, request) in requests {
            request.deadline?.cancel()
            bytes += request.heldBytes
            if request.lifetime == .connection { places += 1 } else { orphaned.insert(ticket) }
        }
        defer { requests.removeAll() }
        return (requests.count, places, bytes)
    }
}
