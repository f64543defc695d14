import CLinuxShims
import Foundation
import NIOCore
import LarderSnapshotFile
import Testing

@testable import LarderServer

@Suite("Output queue with a socket")
struct OutboundQueueTests {
    /// The two ends of a connection. Closed on deinit.
    private final class Ends {
        let (own, peer): (CInt, CInt)

        init() throws {
            var ends: [CInt] = [-1, -1]
            let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
            try #require(socketpair(AF_UNIX, type, 0, &ends) == 0)
            (own, peer) = (ends[0], ends[1])
        }

        deinit {
            close(own)
            close(peer)
        }

        /// Reads all available bytes, and counts the descriptors that come with them.
        func receive() throws -> (bytes: [UInt8], descriptors: Int) {
            var (bytes, descriptors): ([UInt8], Int) = ([], 0)
            while true {
                var piece = [UInt8](repeating: 0, count: 4096)
                var passed = [CInt](repeating: -1, count: Int(LARDER_MAX_PASSED_DESCRIPTORS))
                var count = 0
                let received = larder_receive_descriptors(peer, &piece, piece.count, &passed, passed.count, &count)
                if received < 0, errno == EAGAIN { return (bytes, descriptors) }
                try #require(received > 0)
                bytes += piece[..<received]
                descriptors += count
                for descriptor in passed[..<count] { close(descriptor) }
            }
        }
    }

    /// An output queue and the writer for the socket that receives its output.
    private struct Output {
        let writer: SocketWriter
        var queue = OutboundQueue()

        /// Writes bytes, or queues them if output is pending.
        /// - Returns: whether the socket accepted all of them
        mutating func write(_ bytes: [UInt8], passing file: PassedFile?, then body: ByteBuffer?) -> Bool {
            if queue.isPending {
                queue.enqueue(bytes, passing: file, then: body)
                return false
            }
            let maySend = file == nil || queue.maySendDescriptor(unreadByPeer: writer.unreadByPeer)
            let result = maySend ? writer.write(bytes, passing: file, then: body) : .wouldBlock
            if case .none = queue.wrote(result, of: bytes, passing: file, then: body) { return true }
            return false
        }

        /// Writes queued pieces while the socket accepts them.
        mutating func resume() {
            var action = OutboundQueue.Action.writeNext
            while case .writeNext = action, let piece = queue.nextPiece {
                let maySend = piece.file == nil || queue.maySendDescriptor(unreadByPeer: writer.unreadByPeer)
                action = queue.wroteNext(
                    maySend
                        ? piece.bytes.withUnsafeReadableBytes { writer.write($0, passing: piece.file) } : .wouldBlock)
            }
        }
    }

    @Test("at most four descriptors are in flight to a client that does not read")
    func descriptorsInFlight() throws {
        let ends = try Ends()
        let file = PassedFile(try SealedFile(byteCount: 1, name: "test") { _ in })
        var output = Output(writer: SocketWriter(socket: ends.own))
        let line = Array("a line\n".utf8)
        for number in 1...12 {
            let isWritten = output.write(line, passing: file, then: number % 2 == 0 ? ByteBuffer(bytes: line) : nil)
            #expect(isWritten == (number <= OutboundQueue.maxDescriptorsInFlight))
        }
        // Output without a descriptor is queued, too, behind the descriptors that are queued.
        let isWritten = output.write(line, passing: nil, then: nil)
        #expect(!isWritten)
        output.resume()
        #expect(output.queue.isPending)
        var (bytes, descriptors): ([UInt8], [Int]) = ([], [])
        while output.queue.isPending || descriptors.isEmpty {
            let received = try ends.receive()
            bytes += received.bytes
            descriptors.append(received.descriptors)
            output.resume()
        }
        let last = try ends.receive()
        descriptors.append(last.descriptors)
        #expect(descriptors == [4, 4, 4])
        #expect(bytes + last.bytes == Array(repeating: line, count: 12 + 6 + 1).flatMap { $0 })
    }
}
