import LarderProtocol
import NIOCore

/// The method and required rights of an admitted request. The rights are checked again if the access rules change.
struct Admission: Sendable {
    let method: String
    let requirement: Requirement
}

/// A request whose reply has not been written. Used on the event loop of its connection only.
final class PendingRequest {
    /// Nil for a notification.
    let id: RequestID?
    /// The rights that the request required.
    let admission: Admission
    let slot: BatchSlot?
    let lifetime: PendingRequests.Lifetime
    /// The memory of the request in bytes, which is charged to the user.
    let chargedBytes: Int
    /// The memory that is reserved for the reply; nil if the reply is small, or if the task of the request has it.
    let reservation: ReplyReservation?
    /// If the peer has lost the right to the reply, the error to send instead of the result; otherwise nil.
    var denial: WireError?
    /// The reason of the last cancellation; nil if the request was not cancelled.
    fileprivate(set) var cancellation: WireError?
    /// Called to cancel the work of the request.
    var onCancel: ((WireError) -> Void)?
    /// The timer of the deadline; nil if the request has none.
    var deadline: Scheduled<Void>?

    init(
        id: RequestID?, admission: Admission, slot: BatchSlot?, lifetime: PendingRequests.Lifetime, chargedBytes: Int,
        reservation: ReplyReservation? = nil
    ) {
        self.id = id
        self.admission = admission
        self.slot = slot
        self.lifetime = lifetime
        self.chargedBytes = chargedBytes
        self.reservation = reservation
    }

    /// Cancels the request. It still gets a reply: when its work ends, or when its deadline passes.
    func cancel(_ reason: WireError) {
        cancellation = reason
        onCancel?(reason)
    }
}

/// The requests of one connection whose replies have not been written. Each is completed once.
struct PendingRequests {
    /// Identifies a pending request. Never reused within a connection.
    typealias Ticket = Int

    /// The fate of a request when its connection closes.
    enum Lifetime {
        /// The request is cancelled.
        case connection
        /// The request runs to its end. Until then it counts towards the user's limit on unanswered requests.
        case committed
    }

    /// How to proceed when a request has a result.
    enum Completion {
        /// Write the reply.
        case answer(PendingRequest)
        /// Write no reply, because the connection of the request is closed; only release the place of the request and
        /// the memory that is charged for it.
        case orphaned(chargedBytes: Int)
        /// Do nothing: the request was completed before.
        case unknown
    }

    private var requests: [Ticket: PendingRequest] = [:]
    private var lastTicket = 0
    /// The committed requests that were pending when the connection closed, and have no result yet, with the memory
    /// that is charged for each.
    private var orphaned: [Ticket: Int] = [:]

    var count: Int { requests.count }
    var isEmpty: Bool { requests.isEmpty }

    subscript(ticket: Ticket) -> PendingRequest? { requests[ticket] }

    mutating func add(_ request: PendingRequest) -> Ticket {
        lastTicket += 1
        requests[lastTicket] = request
        return lastTicket
    }

    /// Removes a request that has a result, and cancels its timer.
    mutating func complete(_ ticket: Ticket) -> Completion {
        guard let request = requests.removeValue(forKey: ticket) else {
            return orphaned.removeValue(forKey: ticket).map { .orphaned(chargedBytes: $0) } ?? .unknown
        }
        request.deadline?.cancel()
        return .answer(request)
    }

    /// The tickets of the requests with an id. A client may use an id for several requests.
    func tickets(id: RequestID) -> [Ticket] {
        requests.compactMap { $0.value.id == id ? $0.key : nil }.sorted()
    }

    func tickets(_ lifetime: Lifetime) -> [Ticket] {
        requests.compactMap { $0.value.lifetime == lifetime ? $0.key : nil }.sorted()
    }

    /// Drops all requests because the connection closes. Committed requests become orphaned and stay counted. Otherwise
    /// a client could exceed its limit by repeatedly connecting, sending a change and disconnecting.
    /// - Returns: the number of dropped requests, and the number of places and of charged bytes to release now
    mutating func connectionClosed() -> (requests: Int, places: Int, bytes: Int) {
        if requests.isEmpty { return (0, 0, 0) }
        var (places, bytes) = (0, 0)
        for (ticket, request) in requests {
            request.deadline?.cancel()
            switch request.lifetime {
            case .connection:
                places += 1
                bytes += request.chargedBytes
            case .committed: orphaned[ticket] = request.chargedBytes
            }
        }
        defer { requests.removeAll() }
        return (requests.count, places, bytes)
    }
}
