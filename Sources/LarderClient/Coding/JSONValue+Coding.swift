import FoundationEssentials
import LarderJSON

extension JSONValue {
    /// Decodes the value from its JSON text. `Int`, `Bool` and `String`, the types of most values, and `JSONValue`
    /// itself are read without the decoder.
    func decode<T: Decodable>(_ type: T.Type, decoder: JSONDecoder) throws(LarderClientError) -> T {
        if type == Int.self, let int = int as? T { return int }
        if type == Bool.self, let bool = bool as? T { return bool }
        if type == String.self, let string = string as? T { return string }
        if let value = self as? T { return value }
        do {
            return try decoder.decode(type, from: withTextBytes { Data($0) })
        } catch let error as DecodingError {
            throw LarderClientError(.decodingFailed, "cannot decode \(type): \(error.inOneLine)")
        } catch {
            throw LarderClientError(.decodingFailed, "cannot decode \(type): \(error)")
        }
    }

    /// Encodes a value as JSON.
    /// - Throws: `invalidArgument` if the value cannot be encoded.
    init(encoding value: some Encodable, encoder: JSONEncoder = JSONEncoder()) throws(LarderClientError) {
        if let value = value as? JSONValue {
            self = value
            return
        }
        do {
            self = try JSONValue(parsing: Array(encoder.encode(value)))
        } catch {
            throw LarderClientError(.invalidArgument, "the value cannot be encoded as JSON: \(error)")
        }
    }
}

extension DecodingError {
    /// The coding path at which decoding failed, and the reason for the failure, in one line.
    fileprivate var inOneLine: String {
        switch self {
        case .keyNotFound(let key, let context): "\(Self.place(context))\"\(key.stringValue)\" is missing"
        case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
            Self.place(context) + context.debugDescription.replacing("\n", with: " ")
        @unknown default: String(describing: self).replacing("\n", with: " ")
        }
    }

    private static func place(_ context: Context) -> String {
        let path = context.codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue }
        return path.isEmpty ? "" : "at \(path.joined(separator: ".")): "
    }
}
