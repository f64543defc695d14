public import JSON

/// The `id` of a request, kept as its own JSON text so that it comes back exactly as it went in (`1.0`, `"a"`, `null`).
public struct RequestID: Sendable, Hashable, CustomStringConvertible {
    /// The JSON text of the id.
    public let text: String

    /// Makes the id of a request that this side sends.
    public init(_ number: Int) { text = String(number) }

    /// Reads an id, or returns nil where JSON-RPC 2.0 does not allow the value as one.
    public init?(_ value: JSONValue) {
        switch value.kind {
        case .string, .number, .null: text = value.compactText
        case .bool, .array, .object: return nil
        }
    }

    /// Makes an id of its JSON text, which is a whole number or a string and was checked already.
    public init(text: String) { self.text = text }

    /// The id of a reply to something whose id could not be read.
    public static let null = RequestID(text: "null")

    /// The JSON text of the id.
    public var description: String { text }
}
