import NIOCore
import TestSupport
import Testing

import LarderClient
@testable import LarderClientCore

@Suite("Call table")
struct CallTableTests {
    private func call(bytes: Int = 1, isLong: Bool = false) -> PendingCall {
        PendingCall(
            line: ByteBuffer(repeating: 0, count: bytes), byteCount: bytes, purpose: .answer, isLong: isLong,
            caller: { _ in })
    }

    @Test("requests are sent in order, while fewer than the maximum number are in flight")
    func limit() {
        var table = CallTable(maximumInFlight: 2)
        for id in 1...3 { table.add(call(bytes: id), id) }
        #expect(table.next()?.line.readableBytes == 1)
        #expect(table.next()?.line.readableBytes == 2)
        #expect(table.next() == nil)
        #expect(table.answer(2)?.byteCount == 2)
        #expect(table.next()?.line.readableBytes == 3)
        #expect(table.inFlight == 2)
    }

    @Test("a maximum of less than one request counts as one", arguments: [0, -1])
    func noRequests(maximum: Int) {
        var table = CallTable(maximumInFlight: maximum)
        for id in 1...2 { table.add(call(), id) }
        #expect(table.next()?.id == 1)
        #expect(table.next() == nil)
    }

    @Test("long calls have at most three quarters of the requests in flight, and other calls overtake the next one")
    func longCalls() {
        var table = CallTable(maximumInFlight: 4)
        for id in 1...5 { table.add(call(isLong: true), id) }
        for id in 6...7 { table.add(call(), id) }
        #expect((1...4).map { _ in table.next()?.id } == [1, 2, 3, 6])
        #expect(table.next() == nil)
        #expect(table.answer(6) != nil)
        #expect(table.next()?.id == 7)
        #expect(table.abandon(4) != nil)
        #expect(table.answer(1)?.isLong == true)
        #expect(table.next()?.id == 5)
        #expect(table.next() == nil)
        #expect(table.inFlight == 4)
    }

    @Test("without other calls, requests of all calls are written in order", arguments: [1, 2, 64])
    func orderOfLongCalls(maximum: Int) {
        var table = CallTable(maximumInFlight: maximum)
        for id in 1...9 { table.add(call(isLong: id.isMultiple(of: 3)), id) }
        for id in 1...9 {
            #expect(table.next()?.id == id)
            #expect(table.answer(id) != nil)
        }
    }

    @Test("a reply to a request that is unsent, unknown or already answered matches no call")
    func unknownReply() {
        var table = CallTable(maximumInFlight: 1)
        table.add(call(), 1)
        #expect(table.answer(1) == nil)
        #expect(table.answer(7) == nil)
        _ = table.next()
        #expect(table.answer(1) != nil)
        #expect(table.answer(1) == nil)
    }

    @Test("an abandoned call counts as in flight until its reply arrives")
    func abandonedInFlight() {
        var table = CallTable(maximumInFlight: 1)
        table.add(call(), 1)
        _ = table.next()
        #expect(table.abandon(1)?.isAbandoned == false)
        #expect(table.abandon(1) == nil)
        #expect(table.active(1) == nil)
        #expect(table.inFlight == 1)
        #expect(table.answer(1)?.isAbandoned == true)
        #expect(table.inFlight == 0)
    }

    @Test("an abandoned call that is not sent yet is never sent")
    func abandonedWaiting() {
        var table = CallTable(maximumInFlight: 1)
        table.add(call(bytes: 1), 1)
        table.add(call(bytes: 2), 2)
        #expect(table.abandon(1)?.isSent == false)
        #expect(table.next()?.line.readableBytes == 2)
        #expect(table.next() == nil)
    }

    @Test("a reply without an ID belongs to the request in flight that has the most bytes")
    func longest() {
        var table = CallTable(maximumInFlight: 2)
        for (id, bytes) in [(1, 5), (2, 9), (3, 20)] { table.add(call(bytes: bytes), id) }
        #expect(table.answerLongest() == nil)
        _ = table.next()
        _ = table.next()
        #expect(table.answerLongest()?.byteCount == 9)
        #expect(table.answerLongest()?.byteCount == 5)
        #expect(table.answerLongest() == nil)
    }

    @Test("each call ends once in random sequences of operations", arguments: (0 as UInt64)..<50)
    func randomWalk(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var table = CallTable(maximumInFlight: 3)
        var (waiting, sent, abandoned) = ([Int](), Set<Int>(), Set<Int>())
        // The size of each request equals its ID, so that the size of a line identifies the request.
        for id in 1...200 {
            switch Int.random(in: 0..<4, using: &generator) {
            case 0:
                table.add(call(bytes: id), id)
                waiting.append(id)
            case 1:
                let line = table.next()?.line
                let expected = sent.count < 3 ? waiting.first : nil
                #expect(line?.readableBytes == expected)
                if let expected {
                    waiting.removeFirst()
                    sent.insert(expected)
                }
            case 2:
                let reply = Int.random(in: 1...id, using: &generator)
                let call = table.answer(reply)
                #expect((call != nil) == (sent.remove(reply) != nil))
                if let call { #expect(call.isAbandoned == (abandoned.remove(reply) != nil)) }
            default:
                let other = Int.random(in: 1...id, using: &generator)
                let isWaiting = waiting.contains(other)
                let isActive = isWaiting || sent.contains(other) && !abandoned.contains(other)
                #expect((table.abandon(other) != nil) == isActive)
                if isWaiting { waiting.removeAll { $0 == other } } else if isActive { abandoned.insert(other) }
            }
            #expect(table.inFlight == sent.count)
        }
        #expect(table.removeAll().count == waiting.count + sent.count)
        #expect(table.next() == nil)
    }
}
