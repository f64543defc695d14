/// The host and the port of a URL.
struct URLAuthority {
    let host: URLHost
    /// The host as a URL contains it: in lower case, an IPv6 address in brackets.
    let hostText: String
    /// From 1 to 65535; nil if the URL has none.
    let port: Int?

    /// Parses the text between `//` and the path.
    init(_ text: Substring) throws(InvalidURL) {
        let bytes = text.utf8
        guard !bytes.contains(UInt8(ascii: "@")) else { throw .credentials }
        if bytes.first == UInt8(ascii: "[") {
            guard let bracket = bytes.firstIndex(of: UInt8(ascii: "]")) else { throw .bracketedHost }
            let inner = text[bytes.index(after: bytes.startIndex)..<bracket].lowercased()
            host = try URLHost(bracketed: inner)
            hostText = "[" + inner + "]"
            port = try Self.port(text[bytes.index(after: bracket)...])
        } else {
            let colon = bytes.firstIndex(of: UInt8(ascii: ":")) ?? bytes.endIndex
            host = try URLHost(text[..<colon])
            hostText = host.text
            port = try Self.port(text[colon...])
        }
    }

    /// Parses a port with its colon. No text and a colon without digits mean the default port (RFC 3986, section 3.2.3).
    private static func port(_ text: Substring) throws(InvalidURL) -> Int? {
        guard let colon = text.utf8.first else { return nil }
        let digits = text.utf8.dropFirst()
        guard colon == UInt8(ascii: ":"), digits.allSatisfy(\.isDigit) else { throw .port }
        if digits.isEmpty { return nil }
        guard let port = UInt16(Substring(digits)), port > 0 else { throw .port }
        return Int(port)
    }
}

/// The host of a URL: an IP address, or a name to resolve.
package struct URLHost: Sendable, Hashable {
    /// The host in lower case. An IPv6 address has no brackets.
    let text: String
    /// The address that the host consists of; nil if the host is a name.
    package let address: IPAddress?

    /// The name to resolve, without a trailing dot.
    package var name: String { text.utf8.last == UInt8(ascii: ".") ? String(text.dropLast()) : text }

    /// Checks an IPv6 address.
    ///
    /// - Parameter bracketed: the text between the brackets, in lower case
    init(bracketed text: String) throws(InvalidURL) {
        guard text.utf8.contains(UInt8(ascii: ":")), let address = IPAddress(text) else { throw .bracketedHost }
        (self.text, self.address) = (text, address)
    }

    /// Checks a name or an IPv4 address.
    ///
    /// Resolvers accept `0x7f.1`, `017700000001` and `2130706433` as addresses (inet_aton(3)). A host that ends in a
    /// number but is not four decimal numbers is therefore rejected.
    package init(_ text: Substring) throws(InvalidURL) {
        var label = text.utf8.startIndex
        var length = 0
        var index = label
        while index < text.utf8.endIndex {
            let byte = text.utf8[index]
            text.utf8.formIndex(after: &index)
            if byte == UInt8(ascii: ".") {
                guard length > 0 else { throw .hostLength }
                // A trailing dot begins no label.
                if index < text.utf8.endIndex { (label, length) = (index, 0) }
                continue
            }
            guard byte > 0x20, byte != 0x7F else { throw .control }
            guard byte.isNameByte else { throw byte < 0x80 ? .hostCharacters : .hostIsNotASCII }
            length += 1
            guard length <= 63 else { throw .hostLength }
        }
        guard length > 0 else { throw .noHost }
        self.text = text.lowercased()
        address = try Self.address(self.text, last: text[label...])
        guard name.utf8.count <= 253 else { throw .hostLength }
    }

    /// Returns the address that the host consists of; nil if its last label is not a number.
    private static func address(_ text: String, last label: Substring) throws(InvalidURL) -> IPAddress? {
        let isTrailed = label.utf8.last == UInt8(ascii: ".")
        guard isNumber(isTrailed ? label.dropLast() : label) else { return nil }
        guard let address = IPAddress(isTrailed ? String(text.dropLast()) : text) else { throw .hostIsNumber }
        return address
    }

    /// Whether inet_aton(3) reads the label as a number: decimal, octal, or hexadecimal with the prefix `0x`.
    private static func isNumber(_ label: Substring) -> Bool {
        guard let first = label.utf8.first, first.isDigit else { return false }
        if label.utf8.allSatisfy(\.isDigit) { return true }
        return label.utf8.starts(with: "0x".utf8) { $0.lowercase == $1 }
            && label.utf8.dropFirst(2).allSatisfy(\.isHexDigit)
    }
}

extension UInt8 {
    /// The lower-case form of an ASCII letter; other bytes unchanged.
    var lowercase: UInt8 { (0x41...0x5A).contains(self) ? self | 0x20 : self }
    var isDigit: Bool { (0x30...0x39).contains(self) }
    var isHexDigit: Bool { isDigit || (0x61...0x66).contains(lowercase) }

    /// Whether the byte can be part of a label of a host name: a letter, a digit, a hyphen or an underscore.
    fileprivate var isNameByte: Bool {
        (0x61...0x7A).contains(lowercase) || isDigit || self == UInt8(ascii: "-") || self == UInt8(ascii: "_")
    }
}

/// Why a text is not a URL that can be requested.
package struct InvalidURL: Error, Sendable, Hashable {
    /// The problem and the advice, as the continuation of a sentence whose subject is the URL. Contains no part of the
    /// URL, because a URL may contain secrets.
    package let reason: String

    static let notHTTP = InvalidURL(
        reason: "is not an absolute http or https URL; begin it with \"http://\" or \"https://\"")
    static let credentials = InvalidURL(
        reason: "contains a user name or password; remove it, and send credentials in \"headers\" in the settings")
    /// ``credentials`` for settings beside which a user and a password can be given.
    private static let userCredentials = InvalidURL(
        reason: "contains a user name or password; remove it, and give \"user\" and \"passwordFile\" (or "
            + "\"passwordCredential\") beside it")
    static let control = InvalidURL(reason: "contains a space or a control character; percent-encode it")
    static let noHost = InvalidURL(reason: "has no host; write one after \"//\"")
    static let hostIsNotASCII = InvalidURL(
        reason: "has a host that is not ASCII; write it in its ASCII form, which begins with xn--")
    static let hostCharacters = InvalidURL(
        reason: "has a host with invalid characters; use letters, digits, hyphens, underscores and dots")
    static let hostLength = InvalidURL(
        reason: "has a host with an empty part, a part of more than 63 bytes, or more than 253 bytes; correct it")
    static let hostIsNumber = InvalidURL(
        reason: "has a host that ends in a number; write an address as four decimal numbers")
    static let bracketedHost = InvalidURL(
        reason:
            "has no valid IPv6 address between \"[\" and \"]\"; write one without a zone, or a name without brackets")
    static let port = InvalidURL(reason: "has a port that is not a number from 1 to 65535; correct it")

    /// The same problem, of a setting beside which a user and a password can be given instead of headers.
    package var besideUser: InvalidURL { self == .credentials ? .userCredentials : self }
}
