internal import CPCRE2

/// A compiled regular expression of ECMA-262.
///
/// `@unchecked Sendable`, because the code is immutable once it is compiled: PCRE2 documents that several threads may
/// match with it at the same time.
final class Pattern: @unchecked Sendable {
    private let code: OpaquePointer
    /// Whether a match can only start at the start of the text.
    let isAnchored: Bool

    /// Compiles a pattern for searches in UTF-8 text.
    init(_ pattern: String) throws(PatternError) {
        var translated = try ECMAPattern.translate(pattern)
        // The pattern is not compiled with JIT, because PatternMatcher sets limits. The JIT compiler ignores the depth
        // limit, and needs memory that is both writable and executable.
        let options = PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C
        var number: CInt = 0
        var offset = 0
        let compiled = translated.withUTF8 {
            pcre2_compile_8($0.baseAddress, $0.count, options, &number, &offset, nil)
        }
        guard let compiled else { throw PatternError(Self.message(number)) }
        code = compiled
        var usedOptions: UInt32 = 0
        pcre2_pattern_info_8(compiled, UInt32(PCRE2_INFO_ALLOPTIONS), &usedOptions)
        isAnchored = usedOptions & PCRE2_ANCHORED != 0
    }

    deinit { pcre2_code_free_8(code) }

    private static func message(_ number: CInt) -> String {
        var buffer = [UInt8](repeating: 0, count: 256)
        let count = pcre2_get_error_message_8(number, &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer[..<Int(count)], as: UTF8.self) : "PCRE2 error \(number)"
    }

    fileprivate func match(
        _ text: UnsafeBufferPointer<UInt8>, _ data: OpaquePointer?, _ context: OpaquePointer?
    ) -> CInt {
        pcre2_match_8(code, text.baseAddress, text.count, 0, PCRE2_NO_UTF_CHECK, data, context)
    }
}

/// Searches texts for patterns with limited effort. Used by one validation at a time.
///
/// Nearly all searches take few steps, so each search is tried with a low limit first. If it reaches that limit, it is
/// repeated with a high limit. All repeated searches of one validation also have a common limit, so that a document
/// with many texts cannot take long either.
struct PatternMatcher: ~Copyable {
    enum Outcome {
        case matches, differs
        /// The search needs more steps or memory than allowed.
        case limitReached
    }

    private static let fewSteps = 5_000
    private static let manySteps = 1_000_000
    private static let maxDepth: UInt32 = 50_000
    private static let maxHeapKibibytes: UInt32 = 16 * 1024

    private var data: OpaquePointer?
    private var context: OpaquePointer?
    /// The steps that are left for all repeated searches.
    private var remaining = 20_000_000

    deinit {
        pcre2_match_data_free_8(data)
        pcre2_match_context_free_8(context)
    }

    /// Searches a text in valid UTF-8.
    mutating func search(_ text: UnsafeBufferPointer<UInt8>, for pattern: Pattern) -> Outcome {
        // PCRE2 applies its limit separately to each position at which a match may start, so the limit is divided by
        // their number.
        let starts = pattern.isAnchored ? 1 : text.count + 1
        var result = match(text, pattern, steps: max(Self.fewSteps / starts, 100))
        if result == PCRE2_ERROR_MATCHLIMIT {
            let steps = max(Self.manySteps / starts, 1_000)
            guard steps * starts <= remaining else { return .limitReached }
            remaining -= steps * starts
            result = match(text, pattern, steps: steps)
        }
        if result >= 0 { return .matches }
        return result == PCRE2_ERROR_NOMATCH ? .differs : .limitReached
    }

    private mutating func match(_ text: UnsafeBufferPointer<UInt8>, _ pattern: Pattern, steps: Int) -> CInt {
        if context == nil {
            data = pcre2_match_data_create_8(1, nil)
            context = pcre2_match_context_create_8(nil)
            pcre2_set_depth_limit_8(context, Self.maxDepth)
            pcre2_set_heap_limit_8(context, Self.maxHeapKibibytes)
        }
        pcre2_set_match_limit_8(context, UInt32(steps))
        return pattern.match(text, data, context)
    }
}

/// The error of a regular expression that is invalid or not supported.
struct PatternError: Error, Equatable, Sendable {
    /// The message for users, with the position in the pattern if it is known.
    var reason: String

    init(_ reason: String) { self.reason = reason }

    /// - Parameter offset: the position in the pattern, in code points from 0
    init(_ reason: String, at offset: Int) { self.reason = "\(reason), at character \(offset + 1)" }
}

/// Translates the Unicode properties of ECMA-262 to names that PCRE2 knows.
enum UnicodeProperty {
    /// - Parameter content: the text between the braces of `\p{…}`
    /// - Returns: nil if the text does not have the syntax of a property. PCRE2 may reject the returned name.
    static func translate(_ content: String) -> String? {
        let parts = content.split(separator: "=", omittingEmptySubsequences: false).map(String.init)
        guard parts.allSatisfy(isName) else { return nil }
        if parts.count == 1 { return categories[parts[0]] ?? parts[0] }
        guard parts.count == 2 else { return nil }
        switch parts[0] {
        case "General_Category", "gc": return categories[parts[1]] ?? parts[1]
        case "Script", "sc": return "sc:" + parts[1]
        case "Script_Extensions", "scx": return "scx:" + parts[1]
        default: return nil
        }
    }

    private static func isName(_ text: String) -> Bool {
        !text.isEmpty
            && text.unicodeScalars.allSatisfy {
                $0 == "_" || $0.isASCII && ($0.properties.isAlphabetic || ("0"..."9").contains($0))
            }
    }

    /// The short names of general categories by their long names, which PCRE2 does not accept.
    private static let categories = [
        "Letter": "L", "Cased_Letter": "L&", "LC": "L&", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
        "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo",
        "Mark": "M", "Combining_Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me",
        "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
        "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd",
        "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf",
        "Other_Punctuation": "Po",
        "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So",
        "Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
        "Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Surrogate": "Cs", "Private_Use": "Co",
        "Unassigned": "Cn",
    ]
}
