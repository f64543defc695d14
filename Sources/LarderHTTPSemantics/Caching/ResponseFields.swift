/// The response fields that the caching rules use. No other field is stored, in particular no cookie or token.
package struct ResponseFields: Sendable, Hashable {
    /// Names of the stored fields, in lower case.
    package static let kept: Set<String> = [
        "age", "cache-control", "date", "etag", "expires", "last-modified", "vary",
    ]

    /// The values of each field's lines, in order of arrival. Names are in lower case.
    private var values: [String: [String]] = [:]

    /// Keeps the fields in ``kept``, except for those that `Connection` names, which apply to one connection only (RFC
    /// 9111, section 3.1).
    package init(_ lines: [(name: String, value: String)]) {
        var dropped: Set<String> = []
        for line in lines where line.name.lowercased() == "connection" {
            dropped.formUnion(
                line.value.split(separator: ",").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() })
        }
        for line in lines {
            let name = line.name.lowercased()
            guard Self.kept.contains(name), !dropped.contains(name) else { continue }
            values[name, default: []].append(line.value)
        }
    }

    /// All lines, sorted by field name. Names are in lower case.
    package var lines: [(name: String, value: String)] {
        values.keys.sorted().flatMap { name in values[name, default: []].map { (name, $0) } }
    }

    /// The first line of a field; nil if the field is absent. `name` must be in lower case.
    package func first(_ name: String) -> String? { values[name]?.first }

    /// All lines of a field, joined with commas; nil if the field is absent. `name` must be in lower case.
    package func joined(_ name: String) -> String? { values[name]?.joined(separator: ", ") }

    /// Replaces each field that a 304 response contains (RFC 9111, section 3.2).
    ///
    /// The exceptions of that section (fields of the connection or a proxy, `Content-Length`, `Content-Encoding`,
    /// `Content-Type` and `Content-Range`) need no code here because those fields are never stored. `Age` and `Date`
    /// describe one response, so the stored values are removed even if the 304 response has no new ones.
    mutating func update(with other: ResponseFields) {
        values["age"] = nil
        values["date"] = nil
        values.merge(other.values) { _, new in new }
    }
}
