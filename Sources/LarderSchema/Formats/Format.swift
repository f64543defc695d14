/// The formats that are checked if a schema asserts `format`. Other format names are ignored, as the specification
/// requires.
///
/// The format `regex` is a pattern that this module supports.
enum Format: String, CaseIterable, Sendable {
    case date, time, dateTime = "date-time", duration
    case email, hostname, ipv4, ipv6
    case uri, uriReference = "uri-reference", iri, iriReference = "iri-reference"
    case uuid, jsonPointer = "json-pointer", relativeJSONPointer = "relative-json-pointer", regex

    /// Whether a text in valid UTF-8 has this format.
    func accepts(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var reader = FormatReader(text)
        switch self {
        case .date: return reader.date() && reader.isAtEnd
        case .time: return reader.time() && reader.isAtEnd
        case .dateTime: return reader.dateTime() && reader.isAtEnd
        case .duration: return reader.duration() && reader.isAtEnd
        case .ipv4: return reader.ipv4() && reader.isAtEnd
        case .ipv6: return reader.ipv6() && reader.isAtEnd
        case .email: return reader.email()
        case .hostname: return FormatReader.isHostname(text)
        case .uri: return URIText(text, isInternational: false).map(\.hasScheme) ?? false
        case .uriReference: return URIText(text, isInternational: false) != nil
        case .iri: return URIText(text, isInternational: true).map(\.hasScheme) ?? false
        case .iriReference: return URIText(text, isInternational: true) != nil
        case .uuid: return reader.uuid() && reader.isAtEnd
        case .jsonPointer: return reader.jsonPointer()
        case .relativeJSONPointer: return reader.relativeJSONPointer()
        case .regex: return (try? Pattern(String(decoding: text, as: UTF8.self))) != nil
        }
    }
}

extension FormatReader {
    /// RFC 9562: 8-4-4-4-12 hexadecimal digits.
    mutating func uuid() -> Bool {
        for (position, count) in [8, 4, 4, 4, 12].enumerated() {
            if position > 0, !skip("-") { return false }
            guard skip(while: Self.isHexadecimal) == count else { return false }
        }
        return true
    }

    /// Reads a JSON Pointer (RFC 6901), which must extend to the end of the text.
    mutating func jsonPointer() -> Bool {
        if let next, next != UInt8(ascii: "/") { return false }
        while let byte = next {
            index += 1
            if byte == UInt8(ascii: "~"), !skip("0"), !skip("1") { return false }
        }
        return true
    }

    /// Reads a relative JSON Pointer (draft-handrews-relative-json-pointer-01), which must extend to the end of the
    /// text.
    mutating func relativeJSONPointer() -> Bool {
        let startsWithZero = next == UInt8(ascii: "0")
        let count = skip(while: Self.isDigit)
        guard count > 0, !startsWithZero || count == 1 else { return false }
        if skip("#") { return isAtEnd }
        return jsonPointer()
    }
}
