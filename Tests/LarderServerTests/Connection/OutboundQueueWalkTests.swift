import LarderSnapshotFile
import NIOCore
import TestSupport
import Testing

@testable import LarderServer

@Suite("Output queue without a socket")
struct OutboundQueueWalkTests {
    /// A simulated socket that accepts `room` more bytes.
    private struct Socket {
        var room = 0
        /// The accepted bytes, and the offsets of the bytes that came with a descriptor.
        var (taken, files): ([UInt8], [Int]) = ([], [])

        mutating func write(_ bytes: [UInt8], _ file: PassedFile?) -> SocketWriter.Result {
            let count = min(room, bytes.count)
            if file != nil, count > 0 { files.append(taken.count) }
            taken += bytes.prefix(count)
            room -= count
            return SocketWriter.Result(
                sent: count, status: count == bytes.count ? .complete : .wouldBlock)
        }
    }

    private static func isNone(_ action: OutboundQueue.Action) -> Bool {
        if case .none = action { true } else { false }
    }

    @Test("a piece whose descriptor was refused is replaced by bytes without a descriptor")
    func replacement() throws {
        let file = PassedFile(try SealedFile(byteCount: 1, name: "test") { _ in })
        var (queue, socket) = (OutboundQueue(), Socket())
        queue.enqueue([1, 2, 3], passing: file, then: nil)
        queue.enqueue([4], passing: nil, then: nil)
        queue.replaceNext([9, 9, 9, 9, 9])
        #expect(queue.pendingBytes == 6)
        socket.room = .max
        resume(&queue, &socket)
        #expect(socket.taken == [9, 9, 9, 9, 9, 4] && socket.files.isEmpty)
        #expect(!queue.isPending && queue.acceptedBytes == 6)
    }

    @Test(
        "bytes are written in order, and a descriptor is sent with the first byte of its line",
        arguments: 0..<50)
    func order(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        let file = PassedFile(try SealedFile(byteCount: 1, name: "test") { _ in })
        var (queue, socket) = (OutboundQueue(), Socket())
        var (expected, files): ([UInt8], [Int]) = ([], [])
        for number in 0..<200 {
            socket.room += Int.random(in: 0..<40, using: &generator)
            if Bool.random(using: &generator) { resume(&queue, &socket) }
            let line = [UInt8](repeating: UInt8(number), count: Int.random(in: 1..<30, using: &generator))
            let passed = Int.random(in: 0..<5, using: &generator) == 0 ? file : nil
            let hasBody = passed == nil && Bool.random(using: &generator)
            let body = hasBody ? ByteBuffer(repeating: 255, count: 7) : nil
            if passed != nil { files.append(expected.count) }
            expected += line + Array(buffer: body ?? ByteBuffer())
            if queue.isPending {
                queue.enqueue(line, passing: passed, then: body)
            } else if passed == nil || queue.maySendDescriptor(unreadByPeer: 0) {
                let result = socket.write(line + Array(buffer: body ?? ByteBuffer()), passed)
                let action = queue.wrote(result, of: line, passing: passed, then: body)
                #expect(Self.isNone(action) == !queue.isPending)
            }
            #expect(queue.pendingBytes == expected.count - socket.taken.count)
            #expect(queue.acceptedBytes == socket.taken.count)
        }
        socket.room = .max
        resume(&queue, &socket)
        #expect(!queue.isPending && queue.pendingBytes == 0)
        #expect(socket.taken == expected && socket.files == files)
    }

    private func resume(_ queue: inout OutboundQueue, _ socket: inout Socket) {
        while let piece = queue.nextPiece {
            if piece.file != nil { _ = queue.maySendDescriptor(unreadByPeer: 0) }
            guard case .writeNext = queue.wroteNext(socket.write(Array(buffer: piece.bytes), piece.file))
            else { return }
        }
    }

    @Test(
        "while the kernel refuses descriptors, the delay between retries doubles up to 64 ms until the queue drains")
    func retries() {
        var queue = OutboundQueue()
        let none = SocketWriter.Result(sent: 0, status: .outOfDescriptors)
        func delay(_ action: OutboundQueue.Action) -> Int64? {
            if case .retry(let delay) = action { delay.nanoseconds / 1_000_000 } else { nil }
        }
        var delays = [delay(queue.wrote(none, of: [1], passing: nil, then: nil))]
        for _ in 0..<8 { delays.append(delay(queue.wroteNext(none))) }
        #expect(delays == [1, 2, 4, 8, 16, 32, 64, 64, 64])
        guard case .drained = queue.wroteNext(SocketWriter.Result(sent: 1, status: .complete)) else {
            Issue.record("the queue did not drain")
            return
        }
        #expect(delay(queue.wrote(none, of: [1], passing: nil, then: nil)) == 1)
    }

    @Test(
        "the stalled time counts from the last time at which the socket accepted bytes or the client read bytes")
    func stalled() {
        var queue = OutboundQueue()
        let start = NIODeadline.uptimeNanoseconds(0)
        func time(_ seconds: Int64) -> NIODeadline { start + .seconds(seconds) }
        func stalled(_ seconds: Int64, unread: Int) -> TimeAmount? {
            queue.stalledTime(at: time(seconds), unreadByPeer: unread)
        }
        #expect(stalled(1, unread: 0) == nil)
        _ = queue.wrote(.wouldBlock, of: [1, 2, 3], passing: nil, then: nil)
        queue.startProgress(unreadByPeer: 100, at: time(1))
        #expect(stalled(3, unread: 100) == .seconds(2))
        #expect(stalled(4, unread: 99) == .seconds(0))
        #expect(stalled(6, unread: 99) == .seconds(2))
        _ = queue.wroteNext(SocketWriter.Result(sent: 1, status: .wouldBlock))
        #expect(stalled(7, unread: 100) == .seconds(0))
        #expect(stalled(8, unread: 100) == .seconds(1))
    }

    @Test("if a write fails because the peer has disconnected, queued and later output is discarded")
    func broken() {
        var queue = OutboundQueue()
        _ = queue.wrote(.wouldBlock, of: [1], passing: nil, then: nil)
        guard case .hangUpLater = queue.wroteNext(SocketWriter.Result(sent: 0, status: .broken)) else {
            Issue.record("the connection does not hang up")
            return
        }
        #expect(queue.isBroken && !queue.isPending && queue.pendingBytes == 0)
    }
}
