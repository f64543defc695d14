/// What a response's `Cache-Control` says to a private cache (RFC 9111, section 5.2.2; RFC 5861; RFC 8246).
///
/// Directives for shared caches (`s-maxage`, `proxy-revalidate`, `public`, `private`) change nothing here and are passed
/// over, like unknown ones. `no-cache` and `private` with field names concern fields that we never hand out, so that they
/// change nothing either.
package struct CacheControl: Sendable, Hashable {
    /// `max-age` in seconds. What is no number of seconds counts as 0: section 4.2.1 asks to take it for stale.
    package private(set) var maximumAge: Int?
    /// Whether it may not be kept. `must-understand` lifts it for the statuses that we store (section 5.2.2.3).
    package private(set) var forbidsStoring = false
    /// `no-cache`: each use needs a successful validation first.
    package private(set) var requiresValidation = false
    /// `must-revalidate`: once stale, a use needs a successful validation first, even without a network.
    package private(set) var mustRevalidate = false
    /// `immutable`: while it is fresh, nobody needs to ask whether it changed.
    package private(set) var isImmutable = false
    /// `stale-while-revalidate`: for how many seconds after its freshness it may be used while we ask.
    package private(set) var staleWhileRevalidate = 0
    /// `stale-if-error`: for how many seconds after its freshness it may be used when asking fails.
    package private(set) var staleIfError = 0

    /// No number of seconds is larger than this, as section 1.2.2 has it.
    static let longest = 1 << 31

    /// Reads all lines of the field, joined with commas. Of directives that come twice the first counts (section
    /// 4.2.1); where two contradict each other both are kept, and the stricter wins in use.
    package init(_ field: String) {
        var seen: Set<String> = []
        var isUnderstood = false
        for directive in Self.directives(Array(field.utf8)) where seen.insert(directive.name).inserted {
            switch directive.name {
            case "max-age": maximumAge = Self.seconds(directive.value) ?? 0
            case "no-store": forbidsStoring = true
            case "no-cache": requiresValidation = directive.value?.isEmpty ?? true
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

    /// A number of seconds: digits only, and no more than ``longest``.
    static func seconds(_ text: String?) -> Int? {
        guard let text, !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return min(Int(text) ?? longest, longest)
    }

    /// Names in lower case, and arguments without quotes (both forms are to be understood, section 5.2).
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
        // A quote that does not end takes the rest of the field with it.
        if isQuoted, let name { result.append((name, "\"")) }
        return result
    }
}
