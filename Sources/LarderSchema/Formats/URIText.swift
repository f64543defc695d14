/// The components of a URI reference (RFC 3986), or of an IRI reference (RFC 3987), as ranges of its text.
struct URIText {
    /// The scheme without its colon.
    private(set) var scheme: Range<Int>?
    /// The authority without the slashes before it.
    private(set) var authority: Range<Int>?
    private(set) var path: Range<Int>
    /// The query without its question mark.
    private(set) var query: Range<Int>?
    /// The fragment without its number sign.
    private(set) var fragment: Range<Int>?

    var hasScheme: Bool { scheme != nil }

    /// - Returns: nil if the text is not a valid reference
    init?(_ text: UnsafeBufferPointer<UInt8>, isInternational: Bool) {
        var index = 0
        let end = text.count
        func position(of bytes: StaticString, from start: Int) -> Int {
            let stops = UnsafeBufferPointer(start: bytes.utf8Start, count: bytes.utf8CodeUnitCount)
            return text[start...].firstIndex { stops.contains($0) } ?? end
        }
        let colon = position(of: ":/?#", from: 0)
        if colon < end, text[colon] == UInt8(ascii: ":") {
            guard Self.isScheme(text[..<colon]) else { return nil }
            scheme = 0..<colon
            index = colon + 1
        }
        if text[index...].starts(with: "//".utf8) {
            index += 2
            authority = index..<position(of: "/?#", from: index)
            index = authority?.upperBound ?? index
        }
        path = index..<position(of: "?#", from: index)
        index = path.upperBound
        if index < end, text[index] == UInt8(ascii: "?") {
            query = (index + 1)..<position(of: "#", from: index)
            index = query?.upperBound ?? index
        }
        if index < end { fragment = (index + 1)..<end }

        let check = CharacterCheck(isInternational: isInternational)
        guard authority.map({ check.isAuthority(text[$0]) }) ?? true, check.consists(text[path], of: ":@/"),
            query.map({ check.consists(text[$0], of: ":@/?", isQuery: true) }) ?? true,
            fragment.map({ check.consists(text[$0], of: ":@/?") }) ?? true
        else { return nil }
    }

    private static func isScheme(_ text: some Collection<UInt8>) -> Bool {
        guard let first = text.first, FormatReader.isLetter(first) else { return false }
        return text.allSatisfy { FormatReader.isLetter($0) || FormatReader.isDigit($0) || "+-.".utf8.contains($0) }
    }
}

/// Checks the characters in the components of a URI or IRI reference.
private struct CharacterCheck {
    let isInternational: Bool

    /// Whether a text consists of unreserved characters, sub-delimiters, percent encodings and `others`.
    func consists(_ text: Slice<UnsafeBufferPointer<UInt8>>, of others: StaticString, isQuery: Bool = false) -> Bool {
        let others = UnsafeBufferPointer(start: others.utf8Start, count: others.utf8CodeUnitCount)
        var index = text.startIndex
        while index < text.endIndex {
            let byte = text[index]
            if byte == UInt8(ascii: "%") {
                guard index + 2 < text.endIndex, FormatReader.isHexadecimal(text[index + 1]),
                    FormatReader.isHexadecimal(text[index + 2])
                else { return false }
                index += 3
                continue
            }
            guard byte < 0x80 ? Self.isPlain(byte) || others.contains(byte) : isInternational else { return false }
            index += 1
        }
        return !isInternational || areInternational(text, isQuery: isQuery)
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        FormatReader.isLetter(byte) || FormatReader.isDigit(byte) || "-._~!$&'()*+,;=".utf8.contains(byte)
    }

    /// Whether all characters beyond ASCII are permitted by RFC 3987: `ucschar`, and in queries also `iprivate`.
    private func areInternational(_ text: Slice<UnsafeBufferPointer<UInt8>>, isQuery: Bool) -> Bool {
        guard text.contains(where: { $0 >= 0x80 }) else { return true }
        return String(decoding: text, as: UTF8.self).unicodeScalars.allSatisfy { scalar in
            switch scalar.value {
            case ..<0x80, 0xa0...0xd7ff, 0xf900...0xfdcf, 0xfdf0...0xffef: true
            case 0xe000...0xf8ff, 0xf0000...0x10ffff: isQuery && scalar.value & 0xffff < 0xfffe
            case 0x10000...0xdffff: scalar.value & 0xffff < 0xfffe
            case 0xe1000...0xeffff: scalar.value & 0xffff < 0xfffe
            default: false
            }
        }
    }

    func isAuthority(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        var host = text
        if let at = text.firstIndex(of: UInt8(ascii: "@")) {
            guard consists(text[..<at], of: ":") else { return false }
            host = text[(at + 1)...]
        }
        if host.first == UInt8(ascii: "[") {
            guard let bracket = host.firstIndex(of: UInt8(ascii: "]")),
                isLiteral(UnsafeBufferPointer(rebasing: host[(host.startIndex + 1)..<bracket]))
            else { return false }
            return isPort(host[(bracket + 1)...])
        }
        let colon = host.firstIndex(of: UInt8(ascii: ":")) ?? host.endIndex
        return consists(host[..<colon], of: "") && isPort(host[colon...])
    }

    private func isPort(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        text.isEmpty || (text.first == UInt8(ascii: ":") && text.dropFirst().allSatisfy(FormatReader.isDigit))
    }

    private func isLiteral(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var reader = FormatReader(text)
        if reader.skip(letter: "v") {
            return reader.skip(while: FormatReader.isHexadecimal) > 0 && reader.skip(".")
                && reader.skip(while: { Self.isPlain($0) || $0 == UInt8(ascii: ":") }) > 0 && reader.isAtEnd
        }
        return reader.ipv6() && reader.isAtEnd
    }
}
