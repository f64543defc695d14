/// The purpose of an address, from the special-purpose registries for IPv4 and IPv6 (RFC 6890) as of 2025.
package enum AddressKind: String, Sendable, Hashable {
    /// A host on the Internet. Without a setting that allows more, the agent sends image requests only to addresses of
    /// this kind.
    case global
    case loopback
    /// The local link. Cloud providers serve instance metadata there.
    case linkLocal = "link-local"
    /// Private networks: RFC 1918, unique local (RFC 4193) and site-local addresses, and the prefix for local NAT64
    /// (RFC 8215).
    case privateUse = "private"
    /// Shared address space behind carrier-grade NAT (RFC 6598). Some clouds use it for their own services.
    case shared
    case multicast
    case broadcast
    case documentation
    /// Any other address that does not belong to a host on the Internet.
    case reserved
}

extension IPAddress {
    /// The purpose of the address. An IPv6 address that embeds IPv4 addresses (NAT64, 6to4, Teredo) is global only if
    /// all of these are global; otherwise it has the kind of the first embedded address that is not global.
    package var kind: AddressKind {
        let table = isIPv4 ? Self.ipv4 : Self.ipv6
        if let row = table.first(where: { $0.0.contains(self) }) { return row.1 }
        if isIPv4 { return .global }
        let embedded = embeddedAddresses.map(\.kind)
        if let worse = embedded.first(where: { $0 != .global }) { return worse }
        // Addresses in the deprecated forms, whose upper 64 bits are 0, are reserved: packets to them are not
        // forwarded to the embedded address.
        if !embedded.isEmpty, bits >> 64 != 0 { return .global }
        // 2000::/3 is the only block that is allocated for global unicast (RFC 4291, section 4).
        return bits >> 125 == 0b001 ? .global : .reserved
    }

    /// The IPv4 addresses to which a translator or a tunnel would forward packets to this IPv6 address; empty if it
    /// embeds none.
    var embeddedAddresses: [IPAddress] {
        func address(_ bits: UInt128) -> IPAddress { IPAddress(ipv4: UInt32(truncatingIfNeeded: bits)) }
        // 64:ff9b::/96, RFC 6052.
        if bits >> 32 == 0x0064_FF9B << 64 { return [address(bits)] }
        // 2002::/16, RFC 3056.
        if bits >> 112 == 0x2002 { return [address(bits >> 80)] }
        // 2001::/32, RFC 4380: the address of the server, and the inverted address of the client.
        if bits >> 96 == 0x2001_0000 { return [address(bits >> 64), address(~bits)] }
        // ::/96 (RFC 4291, 2.5.5.1) and ::ffff:0:0:0/96 (RFC 2765), both deprecated.
        if bits >> 32 == 0 || bits >> 32 == 0xFFFF_0000 { return [address(bits)] }
        return []
    }

    private static let ipv4 = table([
        // On Linux, a connection to 0.0.0.0 goes to the local host.
        ("0.0.0.0/8", .loopback), ("127.0.0.0/8", .loopback), ("10.0.0.0/8", .privateUse),
        ("172.16.0.0/12", .privateUse), ("192.168.0.0/16", .privateUse), ("100.64.0.0/10", .shared),
        ("169.254.0.0/16", .linkLocal), ("192.0.0.0/24", .reserved), ("192.0.2.0/24", .documentation),
        ("198.51.100.0/24", .documentation), ("203.0.113.0/24", .documentation), ("192.88.99.0/24", .reserved),
        ("198.18.0.0/15", .reserved), ("224.0.0.0/4", .multicast), ("255.255.255.255/32", .broadcast),
        ("240.0.0.0/4", .reserved),
    ])

    private static let ipv6 = table([
        ("::/128", .loopback), ("::1/128", .loopback), ("fe80::/10", .linkLocal), ("fec0::/10", .privateUse),
        ("fc00::/7", .privateUse), ("ff00::/8", .multicast), ("64:ff9b:1::/48", .privateUse), ("100::/64", .reserved),
        ("2001:2::/48", .reserved), ("2001:10::/28", .reserved), ("2001:20::/28", .reserved),
        ("2001:db8::/32", .documentation), ("3fff::/20", .documentation), ("5f00::/16", .reserved),
    ])

    private static func table(_ rows: [(String, AddressKind)]) -> [(AddressRange, AddressKind)] {
        rows.map { row in
            guard let range = AddressRange(row.0) else { preconditionFailure("\(row.0) is not a range of addresses") }
            return (range, row.1)
        }
    }
}

/// Decides to which addresses the agent sends requests on behalf of clients. Without this check, a client could use the
/// agent to reach hosts on networks that are not public (server-side request forgery).
///
/// The guard checks only hosts and addresses. ``GuardedClients`` ensures that a connection goes to the address that was
/// checked.
package struct AddressGuard: Sendable, Hashable {
    /// Address blocks that the settings allow although they are not globally routable.
    package let allowed: [AddressRange]

    package init(allowed: [AddressRange] = []) { self.allowed = allowed }

    package func allows(_ address: IPAddress) -> Bool {
        address.kind == .global || allowed.contains { $0.contains(address) }
    }

    /// Throws if an address is not allowed.
    ///
    /// - Throws: ``UpstreamError/Code/forbiddenAddress``
    package func check(_ address: IPAddress, of host: String) throws(UpstreamError) {
        guard !allows(address) else { return }
        let shown = host == address.description ? host : "\(host) (\(address))"
        throw UpstreamError(
            .forbiddenAddress,
            "\(shown) is a \(address.kind.rawValue) address, which is not allowed; add it to images.allowNetworks or use "
                + "another origin")
    }
}

extension FetchURL {
    /// Whether requests are encrypted, or do not leave this host.
    package var isPrivate: Bool { isSecure || host.address.map { $0.kind == .loopback } ?? (host.name == "localhost") }
}
