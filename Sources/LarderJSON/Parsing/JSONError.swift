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
