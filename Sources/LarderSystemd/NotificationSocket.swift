import Glibc

/// The notification socket of the service manager (`NOTIFY_SOCKET`, sd_notify(3)).
///
/// sd_notify(3) blocks while the socket is full, for example if the manager hangs. This implementation does not.
enum NotificationSocket {
    /// Sends one datagram without blocking.
    ///
    /// - Parameter path: an absolute path, or the name of an abstract socket with the prefix `@`
    /// - Returns: 0, or the error number; `EAGAIN` if the socket is full
    static func send(_ message: String, to path: String) -> CInt {
        var bytes = Array(path.utf8)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard let first = bytes.first, first == UInt8(ascii: "/") || first == UInt8(ascii: "@"), bytes.count > 1 else {
            return EINVAL
        }
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return ENAMETOOLONG }
        // An abstract name begins with a zero byte and is not zero-terminated (unix(7)).
        if first == UInt8(ascii: "@") { bytes[0] = 0 } else { bytes.append(0) }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let length = (MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 0) + bytes.count

        let descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return errno }
        defer { close(descriptor) }
        let text = Array(message.utf8)
        let flags = CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL)
        while true {
            let sent = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    sendto(descriptor, text, text.count, flags, $0, socklen_t(length))
                }
            }
            if sent >= 0 { return 0 }
            if errno != EINTR { return errno }
        }
    }
}
