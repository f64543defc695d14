internal import LarderUpstream

/// The parts of an image URL that the cache needs to identify origins and compute keys. Parsing is fast enough for an
/// event loop. A parsed URL may still be one that the HTTP client, which is stricter, rejects.
struct ImageAddress: Sendable, Hashable {
    /// `scheme://host` in lower case, with the port unless it is the default port of the scheme.
    let origin: String
    /// The path, beginning with a slash.
    let path: Substring
    /// The text after the question mark; nil if there is no question mark.
    let query: Substring?

    /// Parses an absolute `http` or `https` URL. The host must consist of letters, digits, hyphens, underscores and
    /// dots, or be an IPv6 address in brackets, so that no other URL parser can read it as a different host.
    init?(_ url: String) {
        let bytes = url.utf8
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let scheme = url[..<colon].lowercased()
        guard scheme == "http" || scheme == "https", bytes[colon...].starts(with: "://".utf8) else { return nil }
        let start = bytes.index(colon, offsetBy: 3)
        let end = bytes[start...].firstIndex { $0 == 0x2F || $0 == 0x3F || $0 == 0x23 } ?? bytes.endIndex
        guard let authority = Self.authority(url[start..<end], scheme) else { return nil }
        origin = scheme + "://" + authority
        let rest = url[end...].prefix { $0 != "#" }
        guard !rest.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }) else { return nil }
        let mark = rest.utf8.firstIndex(of: UInt8(ascii: "?"))
        let path = mark.map { rest[..<$0] } ?? rest
        self.path = path.isEmpty ? "/" : path
        query = mark.map { rest[rest.utf8.index(after: $0)...] }
    }

    /// The reason why a URL cannot be parsed, with advice.
    static func refusal(of url: String) -> String {
        let parts = url.split(separator: "://", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, ["http", "https"].contains(parts[0].lowercased()) else {
            return "the url is not an absolute http or https URL; correct it"
        }
        let authority = parts[1].prefix { !"/?#".contains($0) }
        let host = authority.last == "]" ? authority : authority.prefix { $0 != ":" }
        return if authority.contains("@") {
            "the url contains a user or a password; remove it, and give the origin a credential in the settings"
        } else if authority.utf8.contains(where: { $0 >= 0x80 }) {
            "the host of the url is not ASCII; write it in its ASCII form, which begins with xn--"
        } else if url.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }) {
            "the url contains a space or a control character; percent-encode it"
        } else if host.isEmpty {
            "the url has no host; correct it"
        } else if Self.authority(host, "http") == nil {
            "the host of the url has invalid characters; correct it"
        } else {
            "the port of the url is not a number from 1 to 65535; correct it"
        }
    }

    /// The URL without its fragment and without the ignored members of its query.
    func text(ignoring isIgnored: (Substring) -> Bool) -> String {
        guard let query else { return origin + path }
        let members = query.split(separator: "&", omittingEmptySubsequences: false)
        let kept = members.filter { !isIgnored($0.prefix { $0 != "=" }) }
        return kept.isEmpty ? origin + path : origin + path + "?" + kept.joined(separator: "&")
    }

    /// The URL for logs and messages, without its query because that may contain a signature.
    var display: String {
        let text = (origin + path).middleCut
        return query == nil ? text : text + "?…"
    }

    private static func authority(_ text: Substring, _ scheme: String) -> String? {
        guard !text.isEmpty, text.utf8.allSatisfy(isAuthorityByte) else { return nil }
        let lower = text.lowercased()
        let bracket = lower.utf8.lastIndex(of: UInt8(ascii: "]"))
        guard let colon = lower.utf8[(bracket ?? lower.startIndex)...].firstIndex(of: UInt8(ascii: ":")) else {
            return lower
        }
        let digits = lower[lower.utf8.index(after: colon)...]
        guard colon != lower.startIndex else { return nil }
        if digits.isEmpty { return String(lower[..<colon]) }
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = UInt16(digits) else { return nil }
        let defaultPort: UInt16 = scheme == "https" ? 443 : 80
        return port == defaultPort ? String(lower[..<colon]) : lower[..<colon] + ":\(port)"
    }

    private static func isAuthorityByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "-._:[]".utf8.contains(byte)
        }
    }
}
