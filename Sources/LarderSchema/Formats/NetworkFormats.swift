extension FormatReader {
    /// Reads four decimal numbers up to 255 without leading zeros, separated by dots (RFC 2673, section 3.2).
    mutating func ipv4() -> Bool {
        for position in 0..<4 {
            if position > 0, !skip(".") { return false }
            let start = index
            let count = skip(while: Self.isDigit)
            guard (1...3).contains(count), count == 1 || text[start] != UInt8(ascii: "0") else { return false }
            let value = text[start..<index].reduce(0) { $0 * 10 + Int($1 & 15) }
            guard value <= 255 else { return false }
        }
        return true
    }

    /// Reads an IPv6 address (RFC 4291, section 2.2).
    mutating func ipv6() -> Bool {
        var groups = 0
        var isShortened = false
        if skip(":") {
            guard skip(":") else { return false }
            isShortened = true
        }
        while let byte = next, Self.isHexadecimal(byte) {
            let start = index
            guard (1...4).contains(skip(while: Self.isHexadecimal)) else {
                index = start
                return false
            }
            if next == UInt8(ascii: ".") {
                index = start
                guard ipv4() else { return false }
                groups += 2
                break
            }
            groups += 1
            guard skip(":") else { break }
            if skip(":") {
                guard !isShortened else { return false }
                isShortened = true
            } else if next.map(Self.isHexadecimal) != true {
                return false
            }
        }
        return isShortened ? groups <= 7 : groups == 8
    }

    /// Whether a text is an ASCII host name (RFC 1123). Encoded labels (`xn--`) are not decoded.
    static func isHostname(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard (1...253).contains(text.count) else { return false }
        let hyphen = UInt8(ascii: "-")
        return text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).allSatisfy { label in
            (1...63).contains(label.count) && label.first != hyphen && label.last != hyphen
                && label.allSatisfy { isLetter($0) || isDigit($0) || $0 == hyphen }
        }
    }

    /// Whether the whole text is an email address: `Mailbox` in RFC 5321, section 4.1.2.
    mutating func email() -> Bool {
        guard let at = text.lastIndex(of: UInt8(ascii: "@")), (1...64).contains(at) else { return false }
        let domain = UnsafeBufferPointer(rebasing: text[(at + 1)...])
        let isLocalPartValid = skip("\"") ? quotedString() : dotAtom()
        guard isLocalPartValid, index == at else { return false }
        if domain.first == UInt8(ascii: "["), domain.last == UInt8(ascii: "]") {
            return Self.isAddressLiteral(UnsafeBufferPointer(rebasing: domain.dropFirst().dropLast()))
        }
        return Self.isHostname(domain)
    }

    private static func isAddressLiteral(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var reader = FormatReader(text)
        let tag: [Unicode.Scalar] = ["i", "p", "v"]
        if tag.allSatisfy({ reader.skip(letter: $0) }) {
            return reader.skip("6") && reader.skip(":") && reader.ipv6() && reader.isAtEnd
        }
        return reader.ipv4() && reader.isAtEnd
    }

    /// Reads the rest of a quoted string after its first quotation mark.
    private mutating func quotedString() -> Bool {
        while let byte = next {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return true
            case UInt8(ascii: "\\"):
                guard let escaped = next, (0x20...0x7e).contains(escaped) else { return false }
                index += 1
            default: if byte < 0x20 || byte == 0x7f { return false }
            }
        }
        return false
    }

    private mutating func dotAtom() -> Bool {
        repeat {
            guard skip(while: Self.isAtomText) > 0 else { return false }
        } while skip(".")
        return true
    }

    private static func isAtomText(_ byte: UInt8) -> Bool {
        isLetter(byte) || isDigit(byte) || "!#$%&'*+-/=?^_`{|}~".utf8.contains(byte)
    }
}
