/// What an address is for (the registries of RFC 6890 for IPv4 and IPv6, as of 2025).
package enum AddressKind: String, Sendable, Hashable {
    /// A host of the Internet: the only kind that is fetched from unless the settings allow more.
    case global
    /// This machine.
    case loopback
    /// This link; cloud providers answer questions about the machine there.
    case linkLocal = "link-local"
    /// A private network (RFC 1918, ULA, site-local).
    case privateUse = "private"
    /// Behind a provider's address translation (RFC 6598), which some clouds use for their own services.
    case shared
    /// A group of hosts.
    case multicast
    /// All hosts of a link.
    case broadcast
    /// Examples in documentation.
    case documentation
    /// Anything else that is no host of the Internet.
    case reserved
}

extension IPAddress {
    /// What the address is for. An IPv6 address that carries an IPv4 address to where a translator or a tunnel unpacks
    /// it (NAT64, 6to4, Teredo) is at best what that one is.
    package var kind: AddressKind {
        if isIPv4 { return Self.kind(in: Self.ipv4) { $0.contains(self) } ?? .global }
        if let kind = Self.kind(in: Self.ipv6, where: { $0.contains(self) }) { return kind }
        let embedded = embeddedAddresses.map(\.kind)
        if let worse = embedded.first(where: { $0 != .global }) { return worse }
        // The forms that are used no more (high is 0 in them) have no way to where their address is.
        if !embedded.isEmpty, high != 0 { return .global }
        // Only this eighth has been given out (RFC 4291, section 4).
        return high >> 61 == 0b001 ? .global : .reserved
    }

    /// The IPv4 addresses that a translator or a tunnel would send to.
    var embeddedAddresses: [IPAddress] {
        func address(_ bits: UInt64) -> IPAddress { IPAddress(ipv4: UInt32(truncatingIfNeeded: bits)) }
        // 64:ff9b::/96, RFC 6052.
        if high == 0x0064_FF9B << 32, low >> 32 == 0 { return [address(low)] }
        // 2002::/16, RFC 3056.
        if high >> 48 == 0x2002 { return [address(high >> 16)] }
        // 2001::/32, RFC 4380: the server, and the client with all bits turned over.
        if high >> 32 == 0x2001_0000 { return [address(high), address(~low)] }
        // ::/96 (RFC 4291, 2.5.5.1) and ::ffff:0:0:0/96 (RFC 2765), which are used no more.
        if high == 0, low >> 32 == 0 || low >> 32 == 0xFFFF_0000 { return [address(low)] }
        return []
    }

    private static func kind(
        in table: [(AddressRange, AddressKind)], where matches: (AddressRange) -> Bool
    ) -> AddressKind? {
        table.first { matches($0.0) }?.1
    }

    private static let ipv4 = table([
        // Linux connects to this machine for 0.0.0.0, as for 127.0.0.1.
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
            guard let range = AddressRange(row.0) else { preconditionFailure("\(row.0) is no range of addresses") }
            return (range, row.1)
        }
    }
}
