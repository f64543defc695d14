/// An error in compact form, for the hot path of the parser. ``error(in:maximumDepth:)`` turns it into a ``JSONError``.
struct ParseFailure {
    enum Kind: UInt8 {
        case expectedValue, expectedName, expectedColon, expectedCommaInObject, expectedCommaInArray, invalidLiteral
        case leadingZero, missingDigit, missingFraction, missingExponent
        case controlCharacter, unterminatedString, invalidEscape, invalidHex, loneHigh, loneLow
        case invalidUTF8, truncatedUTF8
        case tooDeep, trailingBytes, tooLarge
        /// The result of the parse is not needed any more. No caller gets a ``JSONError`` with this failure.
        case cancelled
    }

    let kind: Kind
    /// The position of the error, in bytes from the start of the text.
    let offset: Int

    /// The error as a ``JSONError``, whose reason shows the byte at the error. `text` is the parsed text.
    func error(in text: UnsafeRawBufferPointer, maximumDepth: Int) -> JSONError {
        let found = found(in: text)
        let atEnd = offset >= text.count
        func syntax(_ expected: String) -> JSONError {
            if atEnd { return JSONError(.unexpectedEnd, at: offset, "expected \(expected), but the text ends") }
            return JSONError(.unexpectedByte, at: offset, "expected \(expected), not \(found)")
        }
        func number(_ reason: String) -> JSONError {
            if atEnd { return JSONError(.unexpectedEnd, at: offset, "the text ends inside a number: \(reason)") }
            return JSONError(.invalidNumber, at: offset, "\(reason), not \(found)")
        }
        switch kind {
        case .expectedValue:
            if let reason = encodingReason(in: text) { return JSONError(.unexpectedByte, at: offset, reason) }
            return syntax("a value")
        case .expectedName: return syntax("a member name in quotation marks")
        case .expectedColon: return syntax("':' after a member name")
        case .expectedCommaInObject: return syntax("',' or '}'")
        case .expectedCommaInArray: return syntax("',' or ']'")
        case .invalidLiteral:
            if atEnd { return JSONError(.unexpectedEnd, at: offset, "the text ends inside true, false or null") }
            return JSONError(.unexpectedByte, at: offset, "the only literals of JSON are true, false and null")
        case .leadingZero:
            return JSONError(.invalidNumber, at: offset, "a number must not have leading zeros; remove them")
        case .missingDigit: return number("a digit must follow '-'")
        case .missingFraction: return number("a digit must follow the decimal point")
        case .missingExponent: return number("a digit must follow the exponent sign")
        case .controlCharacter:
            return JSONError(.controlCharacter, at: offset, "\(found) must be escaped inside a string")
        case .unterminatedString:
            return JSONError(.unexpectedEnd, at: offset, "the text ends inside a string")
        case .invalidEscape:
            if offset + 1 >= text.count {
                return JSONError(.unexpectedEnd, at: text.count, "the text ends inside an escape")
            }
            return JSONError(
                .invalidEscape, at: offset, #"after a backslash only " \ / b f n r t and uXXXX are allowed"#)
        case .invalidHex:
            return JSONError(.invalidEscape, at: offset, #"four hexadecimal digits must follow \u"#)
        case .loneHigh:
            return JSONError(
                .loneSurrogate, at: offset, #"a high surrogate must be followed by a \u escape of a low surrogate"#)
        case .loneLow:
            return JSONError(.loneSurrogate, at: offset, "a low surrogate must follow a high surrogate")
        case .invalidUTF8:
            return JSONError(.invalidUTF8, at: offset, "the string is not UTF-8 at \(found)")
        case .truncatedUTF8:
            return JSONError(.invalidUTF8, at: offset, "the text ends inside a UTF-8 character")
        case .tooDeep:
            return JSONError(
                .tooDeep, at: offset, "arrays and objects are nested deeper than \(maximumDepth) levels")
        case .trailingBytes:
            return JSONError(
                .trailingBytes, at: offset, "the document must end after its value, but \(found) follows")
        case .tooLarge:
            return JSONError(
                .tooLarge, at: offset, "a document is at most \(Document.maxTextCount) bytes long")
        case .cancelled: return JSONError(.unexpectedEnd, at: offset, "the parse was cancelled")
        }
    }

    /// The byte at the error, described for people.
    private func found(in text: UnsafeRawBufferPointer) -> String {
        guard offset < text.count else { return "the end" }
        let byte = text[offset]
        switch byte {
        case 0x27: return "an apostrophe"
        case 0x21...0x7E: return "'\(Unicode.Scalar(byte))'"
        default:
            let digits = String(byte, radix: 16, uppercase: true)
            return "the byte 0x\(byte < 16 ? "0" : "")\(digits)"
        }
    }

    /// The reason for a text that begins with a byte order mark; nil if the text does not begin with one.
    private func encodingReason(in text: UnsafeRawBufferPointer) -> String? {
        guard offset == 0, text.count >= 2 else { return nil }
        if text.count >= 3, text[0] == 0xEF, text[1] == 0xBB, text[2] == 0xBF {
            return "the text begins with a byte order mark; remove its three bytes EF BB BF"
        }
        if (text[0] == 0xFE && text[1] == 0xFF) || (text[0] == 0xFF && text[1] == 0xFE) {
            return "the text begins with a UTF-16 byte order mark; save it as UTF-8"
        }
        return nil
    }
}

/// Why a text is not valid JSON or not a valid path, or why a value has the wrong kind.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of error. New codes may be added.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Value: String, Sendable {
            case unexpectedEnd, unexpectedByte, invalidUTF8, invalidEscape, loneSurrogate, invalidNumber
            case controlCharacter, tooDeep, trailingBytes, tooLarge, invalidPath, typeMismatch
        }

        private let value: Value

        private init(_ value: Value) {
            self.value = value
        }

        /// The text ends inside a value.
        public static var unexpectedEnd: Code { Code(.unexpectedEnd) }
        /// A byte is not permitted at its position by RFC 8259.
        public static var unexpectedByte: Code { Code(.unexpectedByte) }
        /// A string contains bytes that are not valid UTF-8 (RFC 3629).
        public static var invalidUTF8: Code { Code(.invalidUTF8) }
        /// A backslash does not begin an escape of RFC 8259, section 7.
        public static var invalidEscape: Code { Code(.invalidEscape) }
        /// A `\u` escape is one half of a surrogate pair and the other half is missing.
        public static var loneSurrogate: Code { Code(.loneSurrogate) }
        /// A number does not conform to RFC 8259, section 6.
        public static var invalidNumber: Code { Code(.invalidNumber) }
        /// A string contains an unescaped byte below 0x20.
        public static var controlCharacter: Code { Code(.controlCharacter) }
        /// Arrays and objects are nested deeper than the limit.
        public static var tooDeep: Code { Code(.tooDeep) }
        /// The document continues after its value.
        public static var trailingBytes: Code { Code(.trailingBytes) }
        /// The document exceeds 4 GiB, the limit of 32-bit offsets.
        public static var tooLarge: Code { Code(.tooLarge) }
        /// A text is neither a dotted path nor a JSON Pointer (RFC 6901).
        public static var invalidPath: Code { Code(.invalidPath) }
        /// A value is not of the expected kind.
        public static var typeMismatch: Code { Code(.typeMismatch) }

        /// The name of the code, as written in the source.
        public var description: String { value.rawValue }
    }

    public let code: Code
    /// The position of the error, in bytes from the start of the text.
    public let offset: Int
    /// A text for people, in one line: what is wrong and, if it helps, how to fix it.
    public let reason: String

    /// The reason with the code and position.
    public var description: String { "\(reason) (\(code), at byte \(offset))" }

    init(_ code: Code, at offset: Int, _ reason: String) {
        self.code = code
        self.offset = offset
        self.reason = reason
    }
}
