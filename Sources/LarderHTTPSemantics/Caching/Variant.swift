internal import LarderEncoding

/// For which requests a stored response is an answer: those that have the same fields as ours had, as far as `Vary`
/// names them (RFC 9111, section 4.1).
package struct Variant: Sendable, Hashable {
    /// The fields that count, by name in lower case; a field that was not sent has nothing.
    package let fields: [String: String?]
    /// `Vary: *`: no request can be known to be the same.
    package let matchesNothing: Bool

    /// Stands for the whole request, so that one that is the same in all fields is known without a look at these: see
    /// ``fingerprint(of:)``. 0 if the response answers every request, the largest number if it answers none.
    package let fingerprint: UInt64

    /// Makes the variant of a response.
    ///
    /// - Parameters:
    ///   - vary: the response's `Vary`, all lines as one list
    ///   - request: all fields of the request
    package init(vary: String?, request: [(name: String, value: String)]) {
        self.init(vary: vary, request: request, fingerprint: Self.fingerprint(of: request))
    }

    /// Makes a variant again of which only the fields that count are known.
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

    /// The FNV-1a hash of all fields of a request, in their order; never 0 and never the largest number. The agent makes the
    /// requests, so no attacker can choose two with the same hash.
    package static func fingerprint(of request: [(name: String, value: String)]) -> UInt64 {
        var hash = FNV1a()
        for field in request {
            // A 0 ends each part, so that no part runs into the next.
            hash.add(field.name.lowercased().utf8)
            hash.add(0)
            hash.add(field.value.utf8)
            hash.add(0)
        }
        return min(max(hash.value, 1), .max - 1)
    }

    /// Whether a request would be answered by the response.
    package func matches(_ request: [(name: String, value: String)]) -> Bool {
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
