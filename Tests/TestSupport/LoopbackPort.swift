import Glibc

/// Ports of 127.0.0.1.
package enum LoopbackPort {
    /// Binds a socket to a free port without listening on it. Connections to the port are refused.
    package static func reserve() throws -> (descriptor: CInt, port: Int) {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 ? getsockname(descriptor, $0, &length) : -1
            }
        }
        guard result == 0 else { throw HarnessError.system("bind a port") }
        return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
    }

    /// Returns a port that was free during this call. Another process may take it afterwards.
    package static func free() throws -> Int {
        let (descriptor, port) = try reserve()
        close(descriptor)
        return port
    }
}
