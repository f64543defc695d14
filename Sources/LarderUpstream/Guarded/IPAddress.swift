import Glibc

/// An IPv4 or IPv6 address without a port or zone.
package struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    // Not a UInt128: with Swift 6.3.1, a call of an asynchronous function with many parameters crashes if one of them
    // contains a UInt128.
    private let (high, low): (UInt64, UInt64)
    package let isIPv4: Bool

    /// The bits of the address. Those of an IPv4 address are the lowest 32.
    var bits: UInt128 { UInt128(high) << 64 | UInt128(low) }

    /// Creates an IPv4 address. The first byte of the address is the most significant byte of `number`.
    init(ipv4 number: UInt32) { (high, low, isIPv4) = (0, UInt64(number), true) }

    /// Makes an IPv6 address. An IPv4-mapped address (`::ffff:0:0/96`, RFC 4291, 2.5.5.2) becomes the IPv4 address that
    /// it contains, because the kernel connects to that IPv4 address.
    init(ipv6 bits: UInt128) {
        isIPv4 = bits >> 32 == 0xFFFF
        let significant = isIPv4 ? bits & 0xFFFF_FFFF : bits
        (high, low) = (UInt64(significant >> 64), UInt64(truncatingIfNeeded: significant))
    }

    init(_ address: in6_addr) {
        self.init(ipv6: withUnsafeBytes(of: address) { UInt128(bigEndian: $0.loadUnaligned(as: UInt128.self)) })
    }

    /// Parses an IPv4 address of four decimal numbers, or an IPv6 address without brackets or zone. The other forms of
    /// inet_aton(3) are invalid.
    package init?(_ text: String) {
        var four = in_addr()
        var sixteen = in6_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            self.init(ipv4: UInt32(bigEndian: four.s_addr))
        } else if inet_pton(AF_INET6, text, &sixteen) == 1 {
            self.init(sixteen)
        } else {
            return nil
        }
    }

    /// Dotted decimal for IPv4, RFC 5952 for IPv6.
    package var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        if isIPv4 {
            var four = in_addr(s_addr: UInt32(truncatingIfNeeded: bits).bigEndian)
            inet_ntop(AF_INET, &four, &text, socklen_t(text.count))
        } else {
            var sixteen = in6_addr()
            withUnsafeMutableBytes(of: &sixteen) { $0.storeBytes(of: bits.bigEndian, as: UInt128.self) }
            inet_ntop(AF_INET6, &sixteen, &text, socklen_t(text.count))
        }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// A block of addresses with a common prefix (CIDR).
package struct AddressRange: Sendable, Hashable, CustomStringConvertible {
    /// The first address; the bits after the prefix are 0.
    package let first: IPAddress
    /// The length of the prefix in bits: up to 32 for IPv4, up to 128 for IPv6.
    package let length: Int

    /// Parses `10.0.0.0/8`, `fd00::/8`, or a single address. Bits after the prefix must be 0, so that a mistyped length
    /// is detected.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), let first = IPAddress(String(parts[0])) else { return nil }
        let longest = first.isIPv4 ? 32 : 128
        self.first = first
        if parts.count == 2 {
            let digits = parts[1].utf8
            guard (1...3).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }),
                let length = Int(parts[1]), length <= longest
            else { return nil }
            self.length = length
        } else {
            length = longest
        }
        guard first.bits & ~mask == 0 else { return nil }
    }

    /// Whether an address is in the block. A block contains either IPv4 or IPv6 addresses.
    package func contains(_ address: IPAddress) -> Bool {
        address.isIPv4 == first.isIPv4 && address.bits & mask == first.bits
    }

    package var description: String { "\(first)/\(length)" }

    /// The bits of the prefix. The bits above an IPv4 address are 0 in every address.
    private var mask: UInt128 {
        // In Swift, a shift by the width of the type or more gives 0, as is correct for a prefix of length 0.
        UInt128.max << ((first.isIPv4 ? 32 : 128) - length)
    }
}
