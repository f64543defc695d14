import LarderJSON

extension JSONValue {
    /// The value indented for people: two spaces per level, one member per line, numbers unchanged.
    var prettyText: String {
        var text = ""
        appendPretty(to: &text, indentation: "")
        return text
    }

    private func appendPretty(to text: inout String, indentation: String) {
        let inner = indentation + "  "
        switch kind {
        case .object where count > 0:
            text += "{"
            var separator = "\n"
            for (name, value) in members {
                text += "\(separator)\(inner)\(JSONValue.string(name).compactText): "
                value.appendPretty(to: &text, indentation: inner)
                separator = ",\n"
            }
            text += "\n\(indentation)}"
        case .array where count > 0:
            text += "["
            var separator = "\n"
            for value in elements {
                text += separator + inner
                value.appendPretty(to: &text, indentation: inner)
                separator = ",\n"
            }
            text += "\n\(indentation)]"
        default:
            text += compactText
        }
    }
}
