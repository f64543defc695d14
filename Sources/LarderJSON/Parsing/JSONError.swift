/// Why a text is not the JSON, the path or the value that was asked for, and where.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of fault it is. New codes may come with new versions.
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
        /// A byte stands where RFC 8259 allows none of its kind.
        public static var unexpectedByte: Code { Code(.unexpectedByte) }
        /// A string holds bytes that are not UTF-8 (RFC 3629).
        public static var invalidUTF8: Code { Code(.invalidUTF8) }
        /// A backslash begins none of the escapes of RFC 8259, section 7.
        public static var invalidEscape: Code { Code(.invalidEscape) }
        /// A `\u` escape is one half of a surrogate pair without the other.
        public static var loneSurrogate: Code { Code(.loneSurrogate) }
        /// A number breaks the grammar of RFC 8259, section 6.
        public static var invalidNumber: Code { Code(.invalidNumber) }
        /// A string holds a byte below 0x20 that is not escaped.
        public static var controlCharacter: Code { Code(.controlCharacter) }
        /// Arrays and objects are nested deeper than the limit.
        public static var tooDeep: Code { Code(.tooDeep) }
        /// The document goes on after its value.
        public static var trailingBytes: Code { Code(.trailingBytes) }
        /// The document is larger than 4 GiB, the reach of the index.
        public static var tooLarge: Code { Code(.tooLarge) }
        /// A text is neither a dotted path nor an RFC 6901 pointer.
        public static var invalidPath: Code { Code(.invalidPath) }
        /// A value is of another kind than the one that was asked for.
        public static var typeMismatch: Code { Code(.typeMismatch) }

        /// The code's name, as written in this source.
        public var description: String { value.rawValue }
    }

    /// What kind of fault it is.
    public let code: Code
    /// Where it is: bytes from the start of the text.
    public let offset: Int
    /// One line for people: what is wrong and, where it helps, what to do.
    public let reason: String

    /// The reason with its place.
    public var description: String { "\(reason) (\(code), at byte \(offset))" }

    init(_ code: Code, at offset: Int, _ reason: String) {
        self.code = code
        self.offset = offset
        self.reason = reason
    }
}
