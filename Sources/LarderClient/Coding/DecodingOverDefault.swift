import FoundationEssentials
import LarderJSON

extension JSONDecoder {
    /// Decodes a JSON text. A keyed container reads each member that the text lacks from the encoded default.
    ///
    /// The default is encoded and read with the standard strategies, because those of this decoder may have no
    /// counterpart that encodes.
    /// - Parameters:
    ///   - data: the JSON text.
    ///   - defaultData: the default, from ``JSONEncoder/defaultData(_:)``; nil for none.
    ///   - trace: records the members that are read; nil for no record.
    func decode<T: Decodable>(
        _ type: T.Type, from data: Data, over defaultData: Data?, trace: DecodingTrace? = nil
    ) throws -> T {
        func decode(over fallback: (any Decoder)?) throws -> T {
            try self.decode(
                DecodingScope<T>.self, from: data,
                configuration: { base in
                    let decoder = OverlayDecoder(base: base, fallback: fallback, trace: trace)
                    return try OverlayValue(base: try base.singleValueContainer(), decoder: decoder).decode(type)
                }
            ).result
        }
        if type is any DecodedWhole.Type || defaultData == nil, trace == nil {
            return try self.decode(type, from: data)
        }
        guard let defaultData else { return try decode(over: nil) }
        let standard = JSONDecoder()
        standard.userInfo = userInfo
        standard.nonConformingFloatDecodingStrategy = .convertFromString(
            positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
        return try standard.decode(
            DecodingScope<T>.self, from: defaultData, configuration: { try decode(over: $0) }
        ).result
    }
}

extension JSONEncoder {
    /// Encodes a default value for ``JSONDecoder/decode(_:from:over:trace:)``. Returns nil if the value has no members
    /// to read: if there is no value, its type cannot be encoded, or it is not encoded as an object.
    static func defaultData<T>(_ value: T?) throws -> Data? {
        guard let value = value as? any Encodable, !(value is any DecodedWhole) else { return nil }
        let encoder = JSONEncoder()
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
        let data = try encoder.encode(value)
        return data.first == UInt8(ascii: "{") ? data : nil
    }
}

/// The member or value that decoding read last. If a number does not fit into its type, the error of `JSONDecoder` has
/// neither the type nor the position. The value is then decoded again with a trace.
final class DecodingTrace {
    private(set) var codingPath: [any CodingKey] = []
    private(set) var type: Any.Type?

    func note(_ type: Any.Type, at codingPath: [any CodingKey]) { (self.type, self.codingPath) = (type, codingPath) }
}

/// Passes the decoder of a value to a closure.
private struct DecodingScope<T>: DecodableWithConfiguration {
    let result: T

    init(from decoder: any Decoder, configuration decode: (any Decoder) throws -> T) throws {
        result = try decode(decoder)
    }
}

/// A decoder whose keyed containers read absent members from the decoder of a default.
private struct OverlayDecoder: Decoder {
    let base: any Decoder
    let fallback: (any Decoder)?
    let trace: DecodingTrace?

    var codingPath: [any CodingKey] { base.codingPath }
    var userInfo: [CodingUserInfoKey: Any] { base.userInfo }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(
            OverlayContainer(
                base: try base.container(keyedBy: type), fallback: try? fallback?.container(keyedBy: type),
                trace: trace))
    }

    /// The elements of the value. An array is not mixed with that of the default.
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { try base.unkeyedContainer() }

    func singleValueContainer() throws -> any SingleValueDecodingContainer {
        OverlayValue(base: try base.singleValueContainer(), decoder: self)
    }
}

private struct OverlayValue: SingleValueDecodingContainer {
    let base: any SingleValueDecodingContainer
    let decoder: OverlayDecoder

    var codingPath: [any CodingKey] { base.codingPath }

    func decodeNil() -> Bool { base.decodeNil() }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        guard type is any DecodedWhole.Type else { return try T(from: decoder) }
        decoder.trace?.note(type, at: codingPath)
        return try base.decode(type)
    }
}

private struct OverlayContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let base: KeyedDecodingContainer<Key>
    /// The members of the default; nil if the default has no object here.
    let fallback: KeyedDecodingContainer<Key>?
    let trace: DecodingTrace?

    var codingPath: [any CodingKey] { base.codingPath }
    /// Only the members that the value has, so that a dictionary gets no entries of the default, and an enumeration no
    /// second case.
    var allKeys: [Key] { base.allKeys }

    func contains(_ key: Key) -> Bool { base.contains(key) }

    /// The container that has a member; that of the value if neither has it.
    private func source(of key: Key) -> KeyedDecodingContainer<Key> {
        guard let fallback, !base.contains(key), fallback.contains(key) else { return base }
        return fallback
    }

    /// The decoder of a member that the value has.
    private func decoder(forKey key: Key) throws -> OverlayDecoder {
        var absent: (any Decoder)?
        if let fallback, fallback.contains(key) { absent = try fallback.superDecoder(forKey: key) }
        return OverlayDecoder(base: try base.superDecoder(forKey: key), fallback: absent, trace: trace)
    }

    func decodeNil(forKey key: Key) throws -> Bool { try source(of: key).decodeNil(forKey: key) }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        guard base.contains(key), !(type is any DecodedWhole.Type) else {
            trace?.note(type, at: codingPath + [key])
            return try source(of: key).decode(type, forKey: key)
        }
        return try T(from: decoder(forKey: key))
    }

    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
        let source = source(of: key)
        guard source.contains(key), try !source.decodeNil(forKey: key) else { return nil }
        return try decode(type, forKey: key)
    }

    // The protocol has implementations of these methods that do not read the default.
    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? { try scalar(type, key) }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? { try scalar(type, key) }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? { try scalar(type, key) }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? { try scalar(type, key) }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? { try scalar(type, key) }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? { try scalar(type, key) }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? { try scalar(type, key) }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? { try scalar(type, key) }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? { try scalar(type, key) }
    func decodeIfPresent(_ type: Int128.Type, forKey key: Key) throws -> Int128? { try scalar(type, key) }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? { try scalar(type, key) }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? { try scalar(type, key) }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? { try scalar(type, key) }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? { try scalar(type, key) }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? { try scalar(type, key) }
    func decodeIfPresent(_ type: UInt128.Type, forKey key: Key) throws -> UInt128? { try scalar(type, key) }

    private func scalar<T: Decodable>(_ type: T.Type, _ key: Key) throws -> T? {
        trace?.note(type, at: codingPath + [key])
        return try source(of: key).decodeIfPresent(type, forKey: key)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        guard base.contains(key) else { return try source(of: key).nestedContainer(keyedBy: type, forKey: key) }
        return try decoder(forKey: key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try source(of: key).nestedUnkeyedContainer(forKey: key)
    }

    func superDecoder() throws -> any Decoder {
        let present = try base.superDecoder()
        guard let fallback else { return present }
        // A container reads an absent `super` as null.
        let absent = try fallback.superDecoder()
        if try present.singleValueContainer().decodeNil() { return absent }
        return OverlayDecoder(base: present, fallback: absent, trace: trace)
    }

    func superDecoder(forKey key: Key) throws -> any Decoder {
        base.contains(key) ? try decoder(forKey: key) : try source(of: key).superDecoder(forKey: key)
    }
}

/// A type whose values are not mixed with a default. `JSONDecoder` reads them itself, with its strategies.
protocol DecodedWhole {}

extension Bool: DecodedWhole {}
extension String: DecodedWhole {}
extension Double: DecodedWhole {}
extension Float: DecodedWhole {}
extension Int: DecodedWhole {}
extension Int8: DecodedWhole {}
extension Int16: DecodedWhole {}
extension Int32: DecodedWhole {}
extension Int64: DecodedWhole {}
extension Int128: DecodedWhole {}
extension UInt: DecodedWhole {}
extension UInt8: DecodedWhole {}
extension UInt16: DecodedWhole {}
extension UInt32: DecodedWhole {}
extension UInt64: DecodedWhole {}
extension UInt128: DecodedWhole {}
extension Data: DecodedWhole {}
extension Date: DecodedWhole {}
extension Decimal: DecodedWhole {}
extension URL: DecodedWhole {}
extension Array: DecodedWhole {}
extension Set: DecodedWhole {}
extension Dictionary: DecodedWhole {}
