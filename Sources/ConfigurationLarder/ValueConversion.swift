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
