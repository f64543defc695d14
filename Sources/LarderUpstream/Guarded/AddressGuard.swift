/// Decides to which addresses the agent sends requests on behalf of clients. Without this check, a client could use the
/// agent to reach hosts on networks that are not public (server-side request forgery).
///
/// The guard checks only hosts and addresses. ``GuardedClients`` ensures that a connection goes to the address that was
/// checked.
package struct AddressGuard: Sendable, Hashable {
    /// Address blocks that the settings allow although they are not globally routable.
    package let allowed: [AddressRange]

    package init(allowed: [AddressRange] = []) { self.allowed = allowed }

    /// The host of a URL.
    package enum Host: Sendable, Hashable {
        case address(IPAddress)
        /// A name to resolve, in lower case, without a trailing dot.
        case name(String)
    }

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

    /// Parses the host of a URL.
    ///
    /// Resolvers accept `0x7f.1`, `017700000001` and `2130706433` as addresses (inet_aton(3)). A host that ends in a
    /// number but is not four decimal numbers is therefore rejected.
    ///
    /// - Throws: ``UpstreamError/Code/invalidURL``
    package static func host(_ text: String) throws(UpstreamError) -> Host {
        if text.contains(":") {
            let inner = text.hasPrefix("[") && text.hasSuffix("]") ? String(text.dropFirst().dropLast()) : text
            guard let address = IPAddress(inner) else {
                throw invalid("write an IPv6 address without a zone and a port")
            }
            return .address(address)
        }
        let name = (text.hasSuffix(".") ? String(text.dropLast()) : text).lowercased()
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        guard name.utf8.count <= 253, labels.allSatisfy({ (1...63).contains($0.utf8.count) }),
            name.utf8.allSatisfy(isNameByte), let last = labels.last
        else {
            throw invalid(
                "a host name consists of letters, digits, hyphens and dots; write other characters in the xn-- form")
        }
        guard isNumber(last) else { return .name(name) }
        guard let address = IPAddress(name) else { throw invalid("write an address as four decimal numbers") }
        return .address(address)
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."): true
        default: false
        }
    }

    /// Whether inet_aton(3) reads the label as a number: decimal, octal, or hexadecimal with the prefix `0x`.
    private static func isNumber(_ label: Substring) -> Bool {
        let digits = label.utf8
        if digits.allSatisfy({ (0x30...0x39).contains($0) }) { return true }
        return label.hasPrefix("0x") && digits.dropFirst(2).allSatisfy { Character(UnicodeScalar($0)).isHexDigit }
    }

    private static func invalid(_ reason: String) -> UpstreamError {
        UpstreamError(.invalidURL, "the host of the URL is invalid: \(reason)")
    }
}
