import Glibc
import TestSupport

/// A Unix datagram socket that receives messages in place of a service manager or journald.
final class DatagramReceiver {
    let path: String
    private let directory: TemporaryDirectory
    private let descriptor: CInt

    init() throws {
        directory = try TemporaryDirectory()
        path = "\(directory.path)/socket"
        descriptor = try DatagramReceiver.bound(to: path)
    }

    /// Listens on an abstract socket (unix(7)). ``path`` begins with `@`, as NOTIFY_SOCKET does for such a socket.
    init(abstractName: String) throws {
        directory = try TemporaryDirectory()
        path = "@" + abstractName
        descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
        let bound = try withUnixAddress("\0" + abstractName) { address, _ in
            let length = MemoryLayout<sa_family_t>.size + 1 + abstractName.utf8.count
            return bind(descriptor, address, socklen_t(length))
        }
        guard bound == 0 else { throw HarnessError.system("bind \(path)") }
    }

    deinit { close(descriptor) }

    /// Sends datagrams with the text "x" to the socket until it is full.
    func fill() {
        let sender = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
        defer { close(sender) }
        _ = try? withUnixAddress(path) { address, length in
            while sendto(sender, "x", 1, CInt(MSG_DONTWAIT), address, length) == 1 {}
        }
    }

    /// The next datagram as text; "" if none arrives within three minutes.
    func receive() -> String {
        DatagramReceiver.receive(descriptor)
    }

    /// A datagram socket bound to a path.
    static func bound(to path: String) throws -> CInt {
        let descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
        _ = try withUnixAddress(path) { bind(descriptor, $0, $1) }
        return descriptor
    }

    /// The next datagram of a socket as text; "" if none arrives within three minutes.
    static func receive(_ descriptor: CInt) -> String {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&waiting, 1, 180_000) == 1 else { return "" }
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    }
}

/// A listening Unix stream socket at a path.
func listeningSocket(at path: String) throws -> CInt {
    let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
    _ = try withUnixAddress(path) { bind(descriptor, $0, $1) }
    listen(descriptor, 8)
    return descriptor
}
