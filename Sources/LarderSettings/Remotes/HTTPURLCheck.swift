import Glibc
import LarderJSON5

/// What an upstream's URL and headers must be before anything is sent.
enum HTTPURLCheck {
    /// What is wrong with a URL and what to do, to follow the setting's path; `nil` when nothing is.
    ///
    /// A user name or password is refused (RFC 9110, section 4.2.4): the URL appears in logs and in `config.status`.
    static func problem(of url: String) -> String? {
        guard let scheme = ["http://", "https://"].first(where: { url.lowercased().hasPrefix($0) }) else {
            return "must begin with \"http://\" or \"https://\""
        }
        // Never shown from here on: what looks like a URL may hold a password.
        if let bad = url.unicodeScalars.first(where: { !isURLCharacter($0) }) {
            return "must not hold \"\(SettingsText.printable(bad))\"; write it percent-encoded (RFC 3986)"
        }
        let rest = url.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard !authority.contains("@") else {
            return "must not hold a user name or password; send them in \"headers\""
        }
        guard !rest.contains("#") else { return "must not hold a fragment; remove it from the \"#\" on" }
        let (host, port) = split(authority)
        guard isHost(host) else { return "must name a host behind \"//\"" }
        guard isPort(port) else { return "must have a port from 1 to 65535 behind its \":\", or none" }
        return nil
    }

    /// Host and port of an authority; the port with its colon.
    private static func split(_ authority: Substring) -> (host: Substring, port: Substring) {
        let end: Substring.Index
        if authority.hasPrefix("[") {
            end = authority.firstIndex(of: "]").map { authority.index(after: $0) } ?? authority.endIndex
        } else {
            end = authority.firstIndex(of: ":") ?? authority.endIndex
        }
        return (authority[..<end], authority[end...])
    }

    private static func isHost(_ host: Substring) -> Bool {
        guard host.hasPrefix("[") else { return !host.isEmpty && !host.contains("[") && !host.contains("]") }
        var address = in6_addr()
        return host.hasSuffix("]") && inet_pton(AF_INET6, String(host.dropFirst().dropLast()), &address) == 1
    }

    private static func isPort(_ port: Substring) -> Bool {
        guard !port.isEmpty else { return true }
        let digits = port.dropFirst()
        guard port.hasPrefix(":"), digits.utf8.allSatisfy({ isDigit($0) }) else { return false }
        return UInt16(digits).map { $0 > 0 } ?? false
    }

    /// The characters of RFC 3986: ASCII, without space, controls and the ones that it leaves out.
    private static func isURLCharacter(_ scalar: Unicode.Scalar) -> Bool {
        guard scalar.value > 0x20, scalar.value < 0x7f else { return false }
        return !"\"<>\\^`{|}".unicodeScalars.contains(scalar)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    /// A token (RFC 9110, section 5.6.2).
    static func isHeaderName(_ name: String) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy { byte in
                isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                    || "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
    }

    /// A field value (RFC 9110, section 5.5), without the white space around it that a receiver would strip.
    static func isHeaderValue(_ value: String) -> Bool {
        guard value.first != " ", value.first != "\t", value.last != " ", value.last != "\t" else { return false }
        return value.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7f) || $0 == UInt8(ascii: "\t") }
    }
}
