import Configuration
import LarderJSON
import LarderProtocol
import LarderSnapshotFile

/// Converts JSON values to the values of swift-configuration.
///
/// A type has one representation: a string is not converted to a number, and a Boolean is not a number. Bytes are
/// strings in base64. The type decides, so that `10` and `10.0` can be read as an integer and as a double.
enum ValueConversion {
    /// Why a value cannot be converted. It does not contain the value, which may be secret.
    enum Failure: Error {
        /// The JSON value has another kind, such as `a string`.
        case kind(String, expected: String)
        /// The number is not an integer, or too large for `Int`.
        case notAnInteger
        /// The number is too large for `Double`.
        case outOfRange
        case notBase64
        /// The text of the value is damaged.
        case damaged
        indirect case element(Int, Failure)

        /// The sentence about the value at a key.
        func reason(at key: String) -> String {
            switch self {
            case .kind(let kind, let expected): "the value at \"\(key)\" is \(kind), not \(expected)"
            case .notAnInteger: "the number at \"\(key)\" is not an integer of 64 bits"
            case .outOfRange: "the number at \"\(key)\" is out of the range of a double"
            case .notBase64: "the string at \"\(key)\" is not base64"
            case .damaged: "the value at \"\(key)\" is damaged"
            case .element(let index, let failure): failure.reason(at: key) + " (element \(index))"
            }
        }
    }

    /// Converts a value.
    /// - Parameter text: the JSON text of the value
    static func content(
        of text: UnsafeRawBufferPointer, as type: ConfigType
    ) throws(Failure) -> ConfigContent {
        switch type {
        case .string: .string(try string(text))
        case .int: .int(try int(text))
        case .double: .double(try double(text))
        case .bool: .bool(try bool(text))
        case .bytes: .bytes(try bytes(text))
        case .stringArray: .stringArray(try array(text, string))
        case .intArray: .intArray(try array(text, int))
        case .doubleArray: .doubleArray(try array(text, double))
        case .boolArray: .boolArray(try array(text, bool))
        case .byteChunkArray: .byteChunkArray(try array(text, bytes))
        }
    }

    private static func string(_ text: UnsafeRawBufferPointer) throws(Failure) -> String {
        guard text.first == UInt8(ascii: "\"") else { throw .kind(kind(of: text), expected: "a string") }
        guard let string = ScalarText.string(text) else { throw .damaged }
        return string
    }

    private static func int(_ text: UnsafeRawBufferPointer) throws(Failure) -> Int {
        guard isNumber(text) else { throw .kind(kind(of: text), expected: "an integer") }
        guard let value = DecimalInteger.value(of: text) else { throw .notAnInteger }
        return value
    }

    private static func double(_ text: UnsafeRawBufferPointer) throws(Failure) -> Double {
        guard isNumber(text) else { throw .kind(kind(of: text), expected: "a number") }
        guard let value = ScalarText.double(text) else { throw .outOfRange }
        return value
    }

    private static func bool(_ text: UnsafeRawBufferPointer) throws(Failure) -> Bool {
        guard let value = ScalarText.bool(text) else { throw .kind(kind(of: text), expected: "a Boolean") }
        return value
    }

    private static func bytes(_ text: UnsafeRawBufferPointer) throws(Failure) -> [UInt8] {
        guard text.first == UInt8(ascii: "\"") else { throw .kind(kind(of: text), expected: "a string in base64") }
        guard let bytes = InlineBytes.bytes(of: try string(text)) else { throw .notBase64 }
        return bytes
    }

    private static func array<Element>(
        _ text: UnsafeRawBufferPointer, _ convert: (UnsafeRawBufferPointer) throws(Failure) -> Element
    ) throws(Failure) -> [Element] {
        guard text.first == UInt8(ascii: "[") else { throw .kind(kind(of: text), expected: "an array") }
        guard let array = try? JSONValue(parsing: [UInt8](text)) else { throw .damaged }
        var result: [Element] = []
        result.reserveCapacity(array.count)
        for element in array.elements {
            // `withTextBytes` rethrows without the type of the error, so the closure returns a result.
            let converted = element.withTextBytes { text in
                Result { () throws(Failure) in try convert(text) }
            }
            switch converted {
            case .success(let value): result.append(value)
            case .failure(let failure): throw .element(result.count, failure)
            }
        }
        return result
    }

    private static func isNumber(_ text: UnsafeRawBufferPointer) -> Bool {
        guard let first = text.first else { return false }
        return first == UInt8(ascii: "-") || first &- UInt8(ascii: "0") < 10
    }

    private static func kind(of text: UnsafeRawBufferPointer) -> String {
        switch text.first {
        case UInt8(ascii: "\""): "a string"
        case UInt8(ascii: "{"): "an object"
        case UInt8(ascii: "["): "an array"
        case UInt8(ascii: "t"), UInt8(ascii: "f"): "a Boolean"
        case UInt8(ascii: "n"): "null"
        default: "a number"
        }
    }
}

/// Reads integers from the text of JSON numbers.
enum DecimalInteger {
    /// Returns the number if its value is an integer that fits into `Int`, however it is written: `10`, `10.0` and
    /// `1e1` are the same integer. Returns nil otherwise.
    ///
    /// The digits are evaluated exactly, because a `Double` does not represent every `Int`.
    /// - Parameter text: a number in the syntax of JSON
    static func value(of text: UnsafeRawBufferPointer) -> Int? {
        var (value, isNegative, isFraction) = (0, false, false)
        // Zeros are counted and multiplied in only when a digit follows, so that trailing zeros cannot overflow.
        var (zeros, fractionDigits, exponent) = (0, 0, 0)
        for (index, byte) in text.enumerated() {
            switch byte {
            case UInt8(ascii: "-"): isNegative = true
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                exponent = Self.exponent(of: text[(index + 1)...])
                return scaled(value, byPowerOfTen: zeros + exponent - fractionDigits)
            default:
                if isFraction { fractionDigits += 1 }
                if byte == UInt8(ascii: "0") {
                    if value != 0 { zeros += 1 }
                    continue
                }
                guard let scaled = scaled(value, byPowerOfTen: zeros + 1) else { return nil }
                let digit = Int(byte &- UInt8(ascii: "0"))
                let (sum, overflows) =
                    isNegative
                    ? scaled.subtractingReportingOverflow(digit) : scaled.addingReportingOverflow(digit)
                if overflows { return nil }
                (value, zeros) = (sum, 0)
            }
        }
        return scaled(value, byPowerOfTen: zeros - fractionDigits)
    }

    /// Returns the exponent, limited to a magnitude at which every number but 0 is out of range.
    private static func exponent(of text: Slice<UnsafeRawBufferPointer>) -> Int {
        var result = 0
        for byte in text {
            let digit = byte &- UInt8(ascii: "0")
            if digit < 10, result < 1 << 40 { result = result * 10 + Int(digit) }
        }
        return text.first == UInt8(ascii: "-") ? -result : result
    }

    private static func scaled(_ value: Int, byPowerOfTen power: Int) -> Int? {
        if value == 0 { return 0 }
        guard 0...18 ~= power else { return nil }
        var result = value
        for _ in 0..<power {
            let (product, overflows) = result.multipliedReportingOverflow(by: 10)
            if overflows { return nil }
            result = product
        }
        return result
    }
}

/// The text form of a key, for access reports and errors. Values are never found by it.
enum KeyText {
    /// Returns the components separated by dots if that is unambiguous, else a JSON Pointer. The same text is a path
    /// for `larder get`. Dotted texts need at most one allocation.
    static func text(of components: [String]) -> String {
        let isDotted =
            !components.contains { $0.isEmpty || $0.utf8.contains(UInt8(ascii: ".")) }
            && components.first?.utf8.first != UInt8(ascii: "/")
        return isDotted ? components.joined(separator: ".") : JSONPath(components).pointer
    }
}
