import Glibc
import Synchronization

/// Ports of 127.0.0.1, each of which is returned only once in this process.
///
/// The ports are below those that the kernel chooses for outgoing connections and for bind(2) with port 0 (by default 32768
/// to 60999, see ip(7)). After a server has stopped, its port therefore stays free, and the server can start again.
package enum LoopbackPort {
    private static let range = 10_240..<32_768
    /// The number of the next candidate. It starts at a random number, because test processes can run at the same time.
    private static let candidate = Atomic<Int>(Int.random(in: 0..<range.count))

    /// Binds a socket to a free port without listening on it. Connections to the port are refused.
    package static func reserve() throws -> (descriptor: CInt, port: Int) {
        for _ in range {
            let number = candidate.add(1, ordering: .relaxed).oldValue
            let port = range.lowerBound + number % range.count
            let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
            guard descriptor >= 0 else { throw HarnessError.system("socket") }
            if bindLoopback(descriptor, port) { return (descriptor, port) }
            close(descriptor)
        }
        throw HarnessError("all ports of 127.0.0.1 from \(range.lowerBound) to \(range.upperBound - 1) are in use")
    }

    /// Returns a port that was free during this call. Only a process that chooses the same port itself can take it
    /// afterwards.
    package static func free() throws -> Int {
        let (descriptor, port) = try reserve()
        close(descriptor)
        return port
    }

    /// - Returns: false if the port is in use
    private static func bindLoopback(_ descriptor: CInt, _ port: Int) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
