import LarderProtocol
import Testing

@testable import LarderServer

@Suite("Pending requests")
struct PendingRequestsTests {
    private func request(
        _ id: Int, _ lifetime: PendingRequests.Lifetime = .connection, chargedBytes: Int = 0
    ) -> PendingRequest {
        PendingRequest(
            id: RequestID(id), admission: Admission(method: "m", requirement: .nothing), slot: nil, lifetime: lifetime,
            chargedBytes: chargedBytes)
    }

    private func name(_ completion: PendingRequests.Completion) -> String {
        switch completion {
        case .answer(let request): "answer \(request.id?.text ?? "")"
        case .orphaned(let bytes): "orphaned \(bytes)"
        case .unknown: "unknown"
        }
    }

    @Test("a request is answered at most once")
    func once() {
        var pending = PendingRequests()
        let ticket = pending.add(request(7))
        #expect(name(pending.complete(ticket)) == "answer 7")
        #expect(name(pending.complete(ticket)) == "unknown")
        #expect(pending.isEmpty)
    }

    @Test("ids with different bytes are different ids")
    func spellings() {
        let (composed, decomposed) = (RequestID(text: "\"\u{e9}\""), RequestID(text: "\"e\u{301}\""))
        #expect(composed != decomposed && Set([composed, decomposed, composed]).count == 2)
    }

    @Test("pending requests are found by id and by lifetime; their tickets are returned in the order of the requests")
    func tickets() {
        var pending = PendingRequests()
        let tickets = [
            pending.add(request(1)), pending.add(request(2, .committed)), pending.add(request(1)),
        ]
        #expect(pending.tickets(id: RequestID(1)) == [tickets[0], tickets[2]])
        #expect(pending.tickets(id: RequestID(3)).isEmpty)
        #expect(pending.tickets(.committed) == [tickets[1]])
    }

    @Test(
        "after a connection closes, its committed requests count as in flight until they complete")
    func closed() {
        var pending = PendingRequests()
        let (waiting, committed) = (
            pending.add(request(1, chargedBytes: 3)), pending.add(request(2, .committed, chargedBytes: 4))
        )
        let ended = pending.connectionClosed()
        #expect(ended.requests == 2 && ended.places == 1 && ended.bytes == 3)
        #expect(name(pending.complete(waiting)) == "unknown")
        #expect(name(pending.complete(committed)) == "orphaned 4")
        #expect(name(pending.complete(committed)) == "unknown")
    }

    @Test("each cancellation of a request runs its handler, and the last reason is kept")
    func cancelled() {
        let request = request(1)
        var reasons: [String] = []
        request.onCancel = { reasons.append($0.detail) }
        request.cancel(WireError(.timeout, "first"))
        request.cancel(WireError(.cancelled, "second"))
        #expect(reasons == ["first", "second"])
        #expect(request.cancellation?.detail == "second")
    }
}
