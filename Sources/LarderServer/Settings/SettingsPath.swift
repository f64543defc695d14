/// Which setting is meant: the member names from the top of the file down to it.
struct SettingsPath: CustomStringConvertible {
    private let names: [String]

    /// The settings as a whole.
    static let root = SettingsPath(names: [])

    private init(names: [String]) {
        self.names = names
    }

    /// A member of what this path leads to.
    func appending(_ name: String) -> SettingsPath {
        SettingsPath(names: names + [name])
    }

    /// `limits.connections`; a name that is no plain word goes into brackets, as in `namespaces["web.v1"].durability`.
    var description: String {
        guard !names.isEmpty else { return "the settings" }
        var text = ""
        for name in names {
            if !name.isEmpty, name.utf8.allSatisfy(Self.isWord) {
                text += text.isEmpty ? name : ".\(name)"
            } else {
                text += "[\(SettingsText.quoted(name))]"
            }
        }
        return text
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"): true
        default: false
        }
    }
}

/// How what the file says is shown in an error.
enum SettingsText {
    /// A text in quotation marks, on one line, cut after 60 characters.
    static func quoted(_ text: String) -> String {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(60) {
            shown += scalar == "\"" || scalar == "\\" ? "\\\(scalar)" : printable(scalar)
        }
        return "\"\(shown)\(text.unicodeScalars.count > 60 ? "…" : "")\""
    }

    /// A character, or its code point where it would not show or could break the line.
    static func printable(_ scalar: Unicode.Scalar) -> String {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .unassigned, .privateUse, .surrogate:
            "\\u{\(String(scalar.value, radix: 16))}"
        default: String(scalar)
        }
    }
}
