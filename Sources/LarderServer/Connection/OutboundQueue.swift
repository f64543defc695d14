import CLinuxShims
import DequeModule
import LarderImages
import NIOCore
import LarderSnapshotFile
import Glibc

/// The way out of one connection, in the order in which it is written.
///
/// As long as the client keeps up, bytes go straight into its socket with send(2). What the socket does not take waits here
/// until it takes more, and what comes after it waits behind it.
///
/// A descriptor travels with the first byte of a line (unix(7), SCM_RIGHTS), for which only sendmsg(2) will do.
struct OutboundQueue {
    /// How far the bytes came.
    enum Outcome {
        /// All are in the socket.
        case done
        /// The rest waits for room in the socket.
        case waits
        /// The rest waits for a while: too many descriptors are under way to clients that do not read, and the kernel does
        /// not tell when there are fewer.
        case waitsForDescriptors
        /// Nobody is left who could take them.
        case broken
    }

    /// Bytes that have to wait, and what travels with the first one.
    private struct Piece {
        var bytes: ByteBuffer
        var file: PassedFile?
    }

    /// The most descriptors that a client has not received yet; the next one waits until it has read what was sent before.
    /// The kernel counts them for all clients of the agent together, and allows as many as the agent may have open
    /// (unix(7), ETOOMANYREFS). There are more of those than connections, and a user has a quarter of these at most: so
    /// nobody who does not read can keep others from being passed any.
    static let mostUnderWay = 4
    /// What is less than this is unread by nobody: the kernel's overhead of a piece is more, and it takes the last byte of
    /// it off only after it told that the piece was read.
    private static let leastUnread = 256

    private let socket: CInt
    /// Descriptors that were passed since the client was last seen to have read everything.
    private var underWay = 0
    private var waiting = Deque<Piece>()
    /// Bytes that wait for the client.
    private(set) var pendingBytes = 0
    /// Bytes handed over, those that wait included.
    private var offeredBytes = 0
    private var lastProgress = Progress(accepted: 0, unread: 0, at: .uptimeNanoseconds(0))

    /// How far the client was at a time.
    private struct Progress {
        /// Bytes that its socket took.
        var accepted: Int
        /// Bytes in its socket that it had not read.
        var unread: Int
        var at: NIODeadline
    }

    init(socket: CInt) { self.socket = socket }

    /// Whether something waits for the client.
    var isPending: Bool { !waiting.isEmpty }

    /// Bytes that the client took, as far as the socket knows.
    var acceptedBytes: Int { offeredBytes - pendingBytes }

    /// Drops what waits.
    mutating func removeAll() {
        waiting = []
        pendingBytes = 0
    }

    /// Writes bytes, and then others where there are any. What has to wait of those is not copied: however many clients
    /// it waits for, they share its memory.
    /// - Parameter file: what is passed with the first byte.
    mutating func write(_ bytes: [UInt8], passing file: PassedFile?, then more: ByteBuffer?) -> Outcome {
        let total = bytes.count + (more?.readableBytes ?? 0)
        offeredBytes += total
        if isPending {
            hold(bytes[...], file)
            if let more { hold(more, nil) }
            return .waits
        }
        let (sent, outcome) = send(bytes, more, passing: file)
        switch outcome {
        case .done, .broken: return outcome
        case .waits, .waitsForDescriptors:
            if sent < bytes.count { hold(bytes[sent...], sent == 0 ? file : nil) }
            if var rest = more {
                rest.moveReaderIndex(forwardBy: max(0, sent - bytes.count))
                hold(rest, nil)
            }
            lastProgress = Progress(accepted: acceptedBytes, unread: unreadBytes, at: .now())
            return outcome
        }
    }

    /// Goes on with what waits.
    mutating func resume() -> Outcome {
        while let piece = waiting.first {
            let count = piece.bytes.readableBytes
            let (sent, outcome) = piece.bytes.withUnsafeReadableBytes { send($0, passing: piece.file) }
            pendingBytes -= sent
            if sent == count {
                waiting.removeFirst()
                continue
            }
            if sent > 0 {
                waiting[0].bytes.moveReaderIndex(forwardBy: sent)
                // It is on its way.
                waiting[0].file = nil
            }
            return outcome
        }
        return .done
    }

    /// How long the client has taken no byte; nil while nothing waits.
    ///
    /// Its socket takes more only once it has read most of what is in it; a client that is slow, but reads, shows before
    /// that by what it has not read yet.
    mutating func stalledTime(at now: NIODeadline) -> TimeAmount? {
        guard isPending else { return nil }
        let (accepted, unread) = (acceptedBytes, unreadBytes)
        if accepted > lastProgress.accepted || unread < lastProgress.unread {
            lastProgress = Progress(accepted: accepted, unread: unread, at: now)
        }
        return now - lastProgress.at
    }

    private var unreadBytes: Int { Int(larder_unread_by_peer(socket)) }

    private mutating func hold(_ bytes: ArraySlice<UInt8>, _ file: PassedFile?) { hold(ByteBuffer(bytes: bytes), file) }

    private mutating func hold(_ bytes: ByteBuffer, _ file: PassedFile?) {
        if bytes.readableBytes == 0 { return }
        waiting.append(Piece(bytes: bytes, file: file))
        pendingBytes += bytes.readableBytes
    }

    // MARK: System calls

    /// Sends bytes, the first with a descriptor if there is one, and then others.
    /// - Returns: how many went out of both together.
    private mutating func send(
        _ bytes: [UInt8], _ more: ByteBuffer?, passing file: PassedFile?
    ) -> (sent: Int, Outcome) {
        let (count, rest) = (bytes.count, more?.readableBytes ?? 0)
        guard let more else { return bytes.withUnsafeBytes { send($0, passing: file) } }
        if file != nil || count == 0 {
            let first = bytes.withUnsafeBytes { send($0, passing: file) }
            guard first.sent == count else { return first }
            let second = more.withUnsafeReadableBytes { send($0, passing: nil) }
            return (count + second.sent, second.1)
        }
        while true {
            let sent = bytes.withUnsafeBytes { first in
                more.withUnsafeReadableBytes { second in
                    larder_send_two(socket, first.baseAddress, first.count, second.baseAddress, second.count)
                }
            }
            if sent >= 0 { return (sent, sent == count + rest ? .done : .waits) }
            if let outcome = Self.outcome(of: errno) { return (0, outcome) }
        }
    }

    private mutating func send(_ bytes: UnsafeRawBufferPointer, passing file: PassedFile?) -> (sent: Int, Outcome) {
        if bytes.isEmpty { return (0, .done) }
        // It is told of each piece that is read, as of room in the socket.
        if file != nil, !mayPass() { return (0, .waits) }
        while true {
            let sent =
                if let passed = file?.descriptor {
                    larder_send_descriptors(socket, bytes.baseAddress, bytes.count, [passed], 1)
                } else {
                    larder_send_nosignal(socket, bytes.baseAddress, bytes.count)
                }
            if sent >= 0 {
                if file != nil { underWay += 1 }
                return (sent, sent == bytes.count ? .done : .waits)
            }
            if let outcome = Self.outcome(of: errno) { return (0, outcome) }
        }
    }

    /// Whether another descriptor may be passed now.
    private mutating func mayPass() -> Bool {
        if underWay < Self.mostUnderWay { return true }
        guard unreadBytes < Self.leastUnread else { return false }
        underWay = 0
        return true
    }

    /// What became of a system call that failed; nil for one that was only interrupted.
    private static func outcome(of error: CInt) -> Outcome? {
        switch error {
        case EINTR: nil
        case EAGAIN: .waits
        case ETOOMANYREFS, ENOBUFS, ENOMEM: .waitsForDescriptors
        default: .broken
        }
    }
}

/// An open file that travels to clients with the first byte of a line (unix(7), `SCM_RIGHTS`). It stays open as long as it
/// is referenced, at least until it is on its way.
final class PassedFile: Sendable {
    /// What is passed.
    let descriptor: CInt
    /// Closes the descriptor when it goes.
    private let owner: any Sendable
    /// For whom it is open, where it is for one client only.
    private let usage: UserUsage?

    /// An image's file, which was opened for a client of a user; nil for one that is no file of the system's.
    init?(_ blob: BlobFile, for usage: UserUsage) {
        guard let descriptor = blob.descriptor else { return nil }
        (self.descriptor, owner, self.usage) = (descriptor, blob, usage)
        usage.addFile()
    }

    /// A snapshot's file, which is one for all.
    init(_ file: SealedFile) { (descriptor, owner, usage) = (file.descriptor, file, nil) }

    deinit { usage?.removeFile() }
}
