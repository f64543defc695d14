import LarderEncoding

/// A URI reference in its components (RFC 3986).
struct URIReference: Sendable, Equatable {
    var scheme: String?
    var authority: String?
    var path = ""
    var query: String?
    var fragment: String?

    /// - Returns: nil if the text is not a valid URI or IRI reference
    init?(_ text: String) {
        var text = text
        let parts = text.withUTF8 { bytes in
            URIText(bytes, isInternational: true).map { parts in
                func string(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
                return (
                    parts.scheme.map(string), parts.authority.map(string), string(parts.path), parts.query.map(string),
                    parts.fragment.map(string)
                )
            }
        }
        guard let parts else { return nil }
        (scheme, authority, path, query, fragment) = parts
        scheme = scheme?.lowercased()
    }

    /// Resolves the reference against a base (RFC 3986, section 5.2.2).
    func resolved(against base: URIReference) -> URIReference {
        var result = self
        if scheme == nil {
            result.scheme = base.scheme
            if authority == nil {
                result.authority = base.authority
                if path.isEmpty {
                    result.path = base.path
                    if query == nil { result.query = base.query }
                } else if !path.hasPrefix("/") {
                    result.path = base.merged(path)
                }
            }
        }
        result.path = Self.withoutDots(result.path)
        return result
    }

    private func merged(_ relative: String) -> String {
        if authority != nil, path.isEmpty { return "/" + relative }
        guard let slash = path.lastIndex(of: "/") else { return relative }
        return path[...slash] + relative
    }

    /// Removes the segments `.` and `..` from a path (RFC 3986, section 5.2.4).
    private static func withoutDots(_ path: String) -> String {
        guard path.contains("./") || path.hasSuffix(".") else { return path }
        var output: [Substring] = []
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            switch segment {
            case ".": if isLast { output.append("") }
            case "..":
                if output.count > 1 || (output.count == 1 && output[0] != "") { output.removeLast() }
                if isLast { output.append("") }
            default: output.append(segment)
            }
        }
        return output.joined(separator: "/")
    }

    /// The reference as text, without its fragment.
    var withoutFragment: String {
        (scheme.map { $0 + ":" } ?? "") + (authority.map { "//" + $0 } ?? "") + path + (query.map { "?" + $0 } ?? "")
    }

    /// The fragment with percent encodings resolved; empty if there is no fragment, nil if the result is not valid
    /// UTF-8.
    var decodedFragment: String? { fragment.map { Self.decoded($0[...]) } ?? "" }

    /// Replaces percent-encoded bytes; nil if the encoding is invalid, or if the result is not UTF-8.
    static func decoded(_ text: Substring) -> String? {
        let (bytes, isValid) = text.percentDecoded()
        return isValid ? String(validating: bytes, as: UTF8.self) : nil
    }
}
