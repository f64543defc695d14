import CLinuxShims
import Glibc
import LarderImages
import LarderSnapshotFile
import NIOCore

/// The system calls that write to the socket of a connection.
struct SocketWriter {
    /// The outcome of a write.
    struct Result {
        enum Status {
            /// All bytes are in the socket.
            case complete
            /// The socket has no room for the rest.
            case wouldBlock
            /// Too many descriptors are in flight to clients that do not read (unix(7), ETOOMANYREFS). The kernel does not
            /// report when there are fewer.
            case outOfDescriptors
            /// The peer is gone.
            case broken
        }

        var sent: Int
        var status: Status

        static let wouldBlock = Result(sent: 0, status: .wouldBlock)
    }

    let socket: CInt

    /// Bytes in the socket that the peer has not read.
    var unreadByPeer: Int { Int(larder_unread_by_peer(socket)) }

    /// Writes bytes, the first with a descriptor if there is one, and then a body.
    /// - Returns: how many bytes of both together were sent.
    func write(_ bytes: [UInt8], passing file: PassedFile?, then body: ByteBuffer?) -> Result {
        guard let body else { return bytes.withUnsafeBytes { write($0, passing: file) } }
        if file != nil || bytes.isEmpty {
            let first = bytes.withUnsafeBytes { write($0, passing: file) }
            guard first.sent == bytes.count else { return first }
            var result = body.withUnsafeReadableBytes { write($0, passing: nil) }
            result.sent += bytes.count
            return result
        }
        let total = bytes.count + body.readableBytes
        while true {
            let sent = bytes.withUnsafeBytes { first in
                body.withUnsafeReadableBytes { second in
                    larder_send_two(socket, first.baseAddress, first.count, second.baseAddress, second.count)
                }
            }
            if sent >= 0 { return Result(sent: sent, status: sent == total ? .complete : .wouldBlock) }
            if let status = Self.status(of: errno) { return Result(sent: 0, status: status) }
        }
    }

    /// Writes bytes, the first with a descriptor if there is one.
    func write(_ bytes: UnsafeRawBufferPointer, passing file: PassedFile?) -> Result {
        if bytes.isEmpty { return Result(sent: 0, status: .complete) }
        while true {
            let sent =
                if let passed = file?.descriptor {
                    larder_send_descriptors(socket, bytes.baseAddress, bytes.count, [passed], 1)
                } else {
                    larder_send_nosignal(socket, bytes.baseAddress, bytes.count)
                }
            if sent >= 0 { return Result(sent: sent, status: sent == bytes.count ? .complete : .wouldBlock) }
            if let status = Self.status(of: errno) { return Result(sent: 0, status: status) }
        }
    }

    /// The status after a system call failed; nil if it was interrupted and has to be repeated.
    private static func status(of error: CInt) -> Result.Status? {
        switch error {
        case EINTR: nil
        case EAGAIN: .wouldBlock
        case ETOOMANYREFS, ENOBUFS, ENOMEM: .outOfDescriptors
        default: .broken
        }
    }
}

/// An open file that travels to clients with the first byte of a line (unix(7), `SCM_RIGHTS`). It stays open as long as it
/// is referenced, at least until it is sent.
final class PassedFile: Sendable {
    let descriptor: CInt
    /// Closes the descriptor when it is released.
    private let owner: any Sendable
    /// The user for whom the file is open; nil for a file that all clients share.
    private let usage: UserUsage?

    /// An image's file, which was opened for a client of a user; nil if it has no descriptor.
    init?(_ blob: BlobFile, for usage: UserUsage) {
        guard let descriptor = blob.descriptor else { return nil }
        (self.descriptor, owner, self.usage) = (descriptor, blob, usage)
        usage.addFile()
    }

    /// A snapshot's file, which all clients share.
    init(_ file: SealedFile) { (descriptor, owner, usage) = (file.descriptor, file, nil) }

    deinit { usage?.removeFile() }
}
