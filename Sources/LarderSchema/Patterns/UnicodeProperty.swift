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
