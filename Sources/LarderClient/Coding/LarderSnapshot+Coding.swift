public import FoundationEssentials

extension LarderSnapshot {
    /// Decodes the value.
    ///
    /// ```swift
    /// struct Search: Decodable { var limit: Int }
    /// let search = try snapshot.decode(Search.self)
    /// ```
    /// - Parameters:
    ///   - type: the type to decode.
    ///   - decoder: decodes every type but `Int`, `Bool` and `String`, which are read directly.
    /// - Throws: `decodingFailed` if there is no value or it does not match the type.
    public func decode<T: Decodable>(
        _ type: T.Type = T.self, decoder: JSONDecoder = JSONDecoder()
    ) throws(LarderClientError) -> T {
        guard let value else {
            throw LarderClientError(.decodingFailed, "cannot decode \(type): there is no value at the path")
        }
        return try value.decode(type, decoder: decoder)
    }
}
