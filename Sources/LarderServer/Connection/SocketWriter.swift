import CLinuxShims
import Glibc
import LarderImages
import LarderSnapshotFile
import NIOCore

/// The system calls that write to a connection's socket.
struct SocketWriter {
    struct Result {
        enum Status {
            /// The socket accepted all bytes.
            case complete
            /// The socket has no room for the remaining bytes.
            case wouldBlock
            /// Too many descriptors are in flight to clients that do not read (unix(7), ETOOMANYREFS), or the kernel
            /// has no memory. The kernel does not report when either condition ends.
            case outOfDescriptors
            /// The peer has disconnected, or the socket failed.
            case broken
        }

        var sent: Int
        var status: Status

        static let wouldBlock = Result(sent: 0, status: .wouldBlock)

        /// Whether nothing was sent because the kernel accepts no descriptor now. Meaningful only if one was passed.
        var isDescriptorRefused: Bool { sent == 0 && status == .outOfDescriptors }
    }

    let socket: CInt

    /// The number of bytes in the socket that the peer has not read.
    var unreadByPeer: Int { Int(larder_unread_by_peer(socket)) }

    /// Writes bytes, then a body. If `file` is given, its descriptor is sent with the first byte.
    /// - Returns: the total number of bytes sent, and the status
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

    /// Writes bytes. If `file` is given, its descriptor is sent with the first byte.
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

    /// The status for an error of a system call; nil if the call was interrupted and must be repeated.
    private static func status(of error: CInt) -> Result.Status? {
        switch error {
        case EINTR: nil
        case EAGAIN: .wouldBlock
        case ETOOMANYREFS, ENOBUFS, ENOMEM: .outOfDescriptors
        default: .broken
        }
    }
}

/// An open file whose descriptor is sent to clients with the first byte of a line (unix(7), `SCM_RIGHTS`). The file
/// stays open while this object is referenced, at least until the descriptor has been sent.
final class PassedFile: Sendable {
    let descriptor: CInt
    /// The object that owns the descriptor. A reference to it keeps the descriptor open.
    private let owner: any Sendable
    /// The user that the open file is charged to; nil for a file that all clients share.
    private let usage: UserUsage?

    /// The file of an image, opened for one client. Nil if the blob has no open descriptor.
    init?(_ blob: BlobFile, for usage: UserUsage) {
        guard let descriptor = blob.descriptor else { return nil }
        (self.descriptor, owner, self.usage) = (descriptor, blob, usage)
        usage.addFile()
    }

    /// The file of a snapshot, which all clients share.
    init(_ file: SealedFile) { (descriptor, owner, usage) = (file.descriptor, file, nil) }

    deinit { usage?.removeFile() }
}
