/// Formats parts of a JSON5 text for error messages.
package enum JSON5Shown {
    /// The text in quotation marks, on one line, truncated to 60 characters.
    package static func quoted(_ text: String) -> String {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(60) {
            shown += scalar == "\"" || scalar == "\\" ? "\\\(scalar)" : printable(scalar)
        }
        return "\"\(shown)\(text.unicodeScalars.count > 60 ? "…" : "")\""
    }

    /// The character, or its code point as text if the character is invisible or would break the line.
    package static func printable(_ scalar: Unicode.Scalar) -> String {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .unassigned, .privateUse, .surrogate:
            "\\u{\(String(scalar.value, radix: 16))}"
        default: String(scalar)
        }
    }
}
