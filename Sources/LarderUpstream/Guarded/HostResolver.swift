import Glibc
package import NIOPosix

/// Resolves host names to addresses.
package protocol HostResolver: Sendable {
    /// Returns the addresses of a host in order of preference; an empty array if the name does not resolve.
    func addresses(of name: String) async throws(UpstreamError) -> [IPAddress]
}

/// The resolver of the system (getaddrinfo(3)): files, DNS and other services of nsswitch.conf(5). Sorts addresses by
/// RFC 6724.
package struct SystemResolver: HostResolver {
    private let threads: NIOThreadPool

    /// - Parameter threads: runs the lookups. Each lookup can block a thread until the name servers time out. The
    ///   caller starts the pool and shuts it down; lookups after that fail with `cancelled`.
    package init(_ threads: NIOThreadPool) { self.threads = threads }

    /// Resolves a name on the thread pool, unless the task is already cancelled. If it is cancelled during the lookup,
    /// the call throws `cancelled` without waiting for the lookup, whose result is then discarded.
    package func addresses(of name: String) async throws(UpstreamError) -> [IPAddress] {
        if Task.isCancelled { throw Self.cancelled(name) }
        let (results, result) = AsyncStream.makeStream(of: [IPAddress].self)
        threads.submit { state in
            if state == .active { result.yield(Self.lookUp(name)) }
            result.finish()
        }
        // A cancellation ends the stream.
        for await addresses in results { return addresses }
        throw Self.cancelled(name)
    }

    private static func cancelled(_ name: String) -> UpstreamError {
        UpstreamError(.cancelled, "the lookup of \(name) was cancelled")
    }

    private static func lookUp(_ name: String) -> [IPAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(name, nil, &hints, &list) == 0 else { return [] }
        defer { freeaddrinfo(list) }
        var result: [IPAddress] = []
        var next = list
        while let entry = next {
            if let address = address(entry.pointee), !result.contains(address) { result.append(address) }
            next = entry.pointee.ai_next
        }
        return result
    }

    private static func address(_ entry: addrinfo) -> IPAddress? {
        guard let raw = UnsafeRawPointer(entry.ai_addr) else { return nil }
        switch entry.ai_family {
        case AF_INET:
            return IPAddress(ipv4: UInt32(bigEndian: raw.loadUnaligned(as: sockaddr_in.self).sin_addr.s_addr))
        case AF_INET6:
            return IPAddress(raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr)
        default:
            return nil
        }
    }
}
