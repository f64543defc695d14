/// Which setting is meant: the member names, and indexes in arrays, from the top of the file down to it.
struct SettingsPath: CustomStringConvertible {
    private enum Step {
        case name(String)
        case index(Int)
    }

    private let steps: [Step]

    /// The settings as a whole.
    static let root = SettingsPath(steps: [])

    private init(steps: [Step]) {
        self.steps = steps
    }

    /// A member of what this path leads to.
    func appending(_ name: String) -> SettingsPath {
        SettingsPath(steps: steps + [.name(name)])
    }

    /// An element of what this path leads to.
    func appending(_ index: Int) -> SettingsPath {
        SettingsPath(steps: steps + [.index(index)])
    }

    /// `limits.connections`; a name that is no plain word goes into brackets, as in `namespaces["web.v1"].durability`.
    var description: String {
        guard !steps.isEmpty else { return "the settings" }
        var text = ""
        for step in steps {
            switch step {
            case .name(let name) where !name.isEmpty && name.utf8.allSatisfy(Self.isWord):
                text += text.isEmpty ? name : ".\(name)"
            case .name(let name): text += "[\(SettingsText.quoted(name))]"
            case .index(let index): text += "[\(index)]"
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
