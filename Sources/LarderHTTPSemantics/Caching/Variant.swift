internal import LarderEncoding

/// The requests that a stored response can answer: those whose fields named by `Vary` equal the fields of the original
/// request (RFC 9111, section 4.1).
package struct Variant: Sendable, Hashable {
    /// The request fields that `Vary` names, by name in lower case. The value is nil if the request did not have the
    /// field.
    package let fields: [String: String?]
    /// Whether `Vary` contains `*`, so that the response matches no later request.
    package let matchesNothing: Bool

    /// The ``fingerprint(of:)`` of the original request. It allows an identical request to be recognised without
    /// comparing fields. 0 if the response matches every request, and `UInt64.max` if it matches none.
    package let fingerprint: UInt64

    /// Creates the variant of a response.
    ///
    /// - Parameters:
    ///   - vary: the response's `Vary` field, all lines joined with commas
    ///   - request: all fields of the request
    package init(vary: String?, request: [(name: String, value: String)]) {
        self.init(vary: vary, request: request, fingerprint: Self.fingerprint(of: request))
    }

    /// Recreates a stored variant. `request` may omit the fields that `Vary` does not name.
    package init(vary: String?, request: [(name: String, value: String)], fingerprint: UInt64) {
        let names = (vary ?? "").split(separator: ",").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
        matchesNothing = names.contains("*")
        var fields: [String: String?] = [:]
        for name in names where !name.isEmpty && name != "*" {
            fields.updateValue(Self.value(of: name, in: request), forKey: name)
        }
        self.fields = fields
        self.fingerprint = matchesNothing ? .max : fields.isEmpty ? 0 : fingerprint
    }

    /// The FNV-1a hash of all request fields, in order; never 0 or `UInt64.max`. The agent composes the requests, so an
    /// attacker cannot construct a collision.
    package static func fingerprint(of request: [(name: String, value: String)]) -> UInt64 {
        var hash = FNV1a()
        for field in request {
            // A zero byte ends each name and each value, so that moving a character from one to the next changes the
            // hash.
            hash.add(field.name.lowercased().utf8)
            hash.add(0)
            hash.add(field.value.utf8)
            hash.add(0)
        }
        return min(max(hash.value, 1), .max - 1)
    }

    /// Whether the response can answer a request with these fields.
    package func matches(_ request: [(name: String, value: String)]) -> Bool {
        !matchesNothing
            && fields.allSatisfy { name, value in
                // Two spellings of a letter are different values.
                Self.value(of: name, in: request).map { Array($0.utf8) } == value.map { Array($0.utf8) }
            }
    }

    /// All lines of a request field, joined with commas and with white space normalised as RFC 9111, section 4.1,
    /// allows. Nil if the field is absent.
    private static func value(of name: String, in request: [(name: String, value: String)]) -> String? {
        let lines = request.filter { $0.name.lowercased() == name }.map(\.value)
        guard !lines.isEmpty else { return nil }
        let parts = lines.joined(separator: ",").split(separator: ",", omittingEmptySubsequences: false)
        return parts.map { $0.split { $0 == " " || $0 == "\t" }.joined(separator: " ") }.joined(separator: ",")
    }
}
