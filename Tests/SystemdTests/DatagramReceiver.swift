import Glibc

/// A Unix datagram socket in a directory of its own: what a service manager or journald listens on.
final class DatagramReceiver {
    let path: String
    private let directory: String
    private let descriptor: CInt

    init() {
        var template = Array("/tmp/larder-test-XXXXXX".utf8CString)
        directory = mkdtemp(&template).map { String(cString: $0) } ?? "/nonexistent"
        path = "\(directory)/socket"
        descriptor = DatagramReceiver.bound(to: path)
    }

    deinit {
        close(descriptor)
        unlink(path)
        rmdir(directory)
    }

    /// The next datagram, as text; "" when none comes within ten seconds.
    func receive() -> String {
        DatagramReceiver.receive(descriptor)
    }

    /// A datagram socket bound to a path.
    static func bound(to path: String) -> CInt {
        let descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
        _ = withUnixAddress(path) { bind(descriptor, $0, $1) }
        return descriptor
    }

    /// The next datagram at a socket, as text; "" when none comes within ten seconds.
    static func receive(_ descriptor: CInt) -> String {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&waiting, 1, 10_000) == 1 else { return "" }
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
    }
}

/// Calls a function with the socket address of a path.
func withUnixAddress<Result>(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
}

/// A listening Unix stream socket at a path.
func listeningSocket(at path: String) -> CInt {
    let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
    _ = withUnixAddress(path) { bind(descriptor, $0, $1) }
    listen(descriptor, 8)
    return descriptor
}
