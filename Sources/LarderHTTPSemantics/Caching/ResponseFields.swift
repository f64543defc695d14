/// The fields of a response that the rules of caching read, and no others: neither a cookie nor a token is ever kept.
package struct ResponseFields: Sendable, Hashable {
    /// The fields that are kept, in lower case.
    package static let kept: Set<String> = [
        "age", "cache-control", "date", "etag", "expires", "last-modified", "vary",
    ]

    /// Names in lower case, and the values of all their lines in the order that they came in.
    private var values: [String: [String]] = [:]

    /// Takes the fields of a response. Those that its `Connection` names are about that connection only (RFC 9111,
    /// section 3.1), whatever they are.
    package init(_ lines: [(name: String, value: String)]) {
        var dropped: Set<String> = []
        for line in lines where line.name.lowercased() == "connection" {
            dropped.formUnion(line.value.split(separator: ",").map { $0.filter { $0 != " " }.lowercased() })
        }
        for line in lines {
            let name = line.name.lowercased()
            guard Self.kept.contains(name), !dropped.contains(name) else { continue }
            values[name, default: []].append(line.value)
        }
    }

    /// The fields, for keeping them: names in lower case and in their order.
    package var lines: [(name: String, value: String)] {
        values.keys.sorted().flatMap { name in values[name, default: []].map { (name, $0) } }
    }

    /// The first line of a field, by its name in lower case.
    package func first(_ name: String) -> String? { values[name]?.first }

    /// All lines of a field as one list.
    package func joined(_ name: String) -> String? { values[name]?.joined(separator: ", ") }

    /// Replaces each field that a 304 has (RFC 9111, section 3.2).
    ///
    /// The section's exceptions are met by what is kept at all: fields of the connection or of a proxy, `Content-Length`,
    /// and `Content-Encoding`, `Content-Type` and `Content-Range`, which belong to the body as it was taken in, are not.
    /// `Age` and `Date` say how old that answer is; where the new one has none, the old ones mean nothing any more.
    mutating func update(with other: ResponseFields) {
        values["age"] = nil
        values["date"] = nil
        values.merge(other.values) { _, new in new }
    }
}
