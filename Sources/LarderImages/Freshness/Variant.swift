/// For which requests a stored response is an answer: those that have the same fields as ours had, as far as `Vary`
/// names them (RFC 9111, section 4.1).
public struct Variant: Sendable, Hashable {
    /// The fields that count, by name in lower case; a field that was not sent has nothing.
    public let fields: [String: String?]
    /// `Vary: *`: no request can be known to be the same.
    public let matchesNothing: Bool

    /// Makes the variant of a response.
    ///
    /// - Parameters:
    ///   - vary: the response's `Vary`, all lines as one list
    ///   - request: all fields of the request
    public init(vary: String?, request: [(name: String, value: String)]) {
        let names = (vary ?? "").split(separator: ",").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
        matchesNothing = names.contains("*")
        var fields: [String: String?] = [:]
        for name in names where !name.isEmpty && name != "*" {
            fields.updateValue(Self.value(of: name, in: request), forKey: name)
        }
        self.fields = fields
    }

    /// Whether a request would be answered by the response.
    public func matches(_ request: [(name: String, value: String)]) -> Bool {
        !matchesNothing && fields.allSatisfy { Self.value(of: $0.key, in: request) == $0.value }
    }

    /// The lines of a field as one, with the white space that the section tells not to look at made the same.
    private static func value(of name: String, in request: [(name: String, value: String)]) -> String? {
        let lines = request.filter { $0.name.lowercased() == name }.map(\.value)
        guard !lines.isEmpty else { return nil }
        let parts = lines.joined(separator: ",").split(separator: ",", omittingEmptySubsequences: false)
        return parts.map { $0.split { $0 == " " || $0 == "\t" }.joined(separator: " ") }.joined(separator: ",")
    }
}
