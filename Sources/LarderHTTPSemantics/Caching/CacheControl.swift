/// The `Cache-Control` directives of a response that concern a private cache (RFC 9111, section 5.2.2; RFC 5861; RFC
/// 8246).
///
/// Directives for shared caches (`s-maxage`, `proxy-revalidate`, `public`, `private`) and unknown directives are
/// ignored. `no-cache` and `private` with field names are ignored too: they concern fields of forwarded responses, and
/// the cache forwards no HTTP responses.
package struct CacheControl: Sendable, Hashable {
    /// `max-age` in seconds; nil if absent. An invalid value counts as 0, because RFC 9111, section 4.2.1, recommends
    /// treating the response as stale.
    package private(set) var maximumAge: Int?
    /// `no-store`: the response must not be stored. False if `must-understand` is also present, because the cache
    /// stores only responses with a status whose rules it implements (RFC 9111, section 5.2.2.3).
    package private(set) var forbidsStoring = false
    /// `no-cache`: each use requires a successful validation first.
    package private(set) var requiresValidation = false
    /// `must-revalidate`: once the response is stale, each use requires a successful validation, even if the origin is
    /// unreachable.
    package private(set) var mustRevalidate = false
    /// `immutable`: the response does not change while it is fresh.
    package private(set) var isImmutable = false
    /// `stale-while-revalidate`: the number of seconds after expiry during which the response may be used while it is
    /// revalidated in the background.
    package private(set) var staleWhileRevalidate = 0
    /// `stale-if-error`: the number of seconds after expiry during which the response may be used if revalidation
    /// fails.
    package private(set) var staleIfError = 0

    /// The maximum number of seconds in a directive. Larger numbers are reduced to this maximum (RFC 9111, section
    /// 1.2.2).
    static let maxSeconds = 1 << 31

    /// Parses the value of a `Cache-Control` field. If the response has several such lines, the caller must join them
    /// with commas. If a directive is repeated, the first one counts (RFC 9111, section 4.2.1). Contradictory
    /// directives are all recorded, and ``CacheRequest`` applies the strictest. `no-cache` counts if one of its
    /// occurrences has no field names.
    package init(_ field: String) {
        var seen: Set<String> = []
        var isUnderstood = false
        for directive in Self.directives(Array(field.utf8)) {
            // `no-cache` with field names concerns only these fields, and does not replace one that concerns all.
            if directive.name == "no-cache", directive.value?.isEmpty ?? true { requiresValidation = true }
            guard seen.insert(directive.name).inserted else { continue }
            switch directive.name {
            case "max-age": maximumAge = Self.seconds(directive.value) ?? 0
            case "no-store": forbidsStoring = true
            case "must-revalidate": mustRevalidate = true
            case "must-understand": isUnderstood = true
            case "immutable": isImmutable = true
            case "stale-while-revalidate": staleWhileRevalidate = Self.seconds(directive.value) ?? 0
            case "stale-if-error": staleIfError = Self.seconds(directive.value) ?? 0
            default: break
            }
        }
        if isUnderstood { forbidsStoring = false }
    }

    /// A number of seconds: digits only, clamped to ``maxSeconds``. Nil for any other text.
    static func seconds(_ text: String?) -> Int? {
        guard let text, !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return min(Int(text) ?? maxSeconds, maxSeconds)
    }

    /// Splits a field into directives, with names in lower case and arguments unquoted. RFC 9111, section 5.2, requires
    /// recipients to accept both quoted and unquoted arguments.
    private static func directives(_ bytes: [UInt8]) -> [(name: String, value: String?)] {
        var result: [(name: String, value: String?)] = []
        var part: [UInt8] = []
        var name: String?
        var isQuoted = false
        var isEscaped = false
        func text(_ bytes: [UInt8]) -> String {
            let space: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
            let end = bytes.lastIndex { !space($0) }.map { $0 + 1 } ?? 0
            return String(decoding: bytes[..<end].drop(while: space), as: UTF8.self)
        }
        for byte in bytes + [UInt8(ascii: ",")] {
            switch byte {
            case _ where isEscaped:
                part.append(byte)
                isEscaped = false
            case UInt8(ascii: "\\") where isQuoted: isEscaped = true
            case UInt8(ascii: "\"") where name != nil: isQuoted.toggle()
            case UInt8(ascii: "=") where name == nil:
                name = text(part).lowercased()
                part = []
            case UInt8(ascii: ",") where !isQuoted:
                let word = text(part)
                if let name { result.append((name, word)) } else { result.append((word.lowercased(), nil)) }
                (part, name) = ([], nil)
            default: part.append(byte)
            }
        }
        // An unterminated quote extends to the end of the field and makes the argument invalid.
        if isQuoted, let name { result.append((name, "\"")) }
        return result
    }
}
