/// Reads JSON with the parts of JSON5 (spec.json5.org) that help people who write settings: comments, names without
/// quotation marks, strings in single ones, and a comma behind the last element. Every value knows where it stands.
///
/// The settings are parsed here, and not by FoundationEssentials' decoder, because that one (Swift 6.3) ends the process
/// at the number `1e+`, which a typing error must not do to a daemon that reloads; says neither line nor member
/// for most errors; and keeps the first of two members with one name in silence.
struct JSON5Parser {
    /// Nesting beyond this is refused. No setting is nested deeper than six objects.
    static let maximumDepth = 64

    private var text: JSON5Text

    private init(_ scalars: [Unicode.Scalar]) {
        text = JSON5Text(scalars)
    }

    /// The one value that a text holds.
    ///
    /// - Throws: ``SettingsError`` with `syntax` or `duplicateMember`, and its offset.
    static func parse(_ scalars: [Unicode.Scalar]) throws(SettingsError) -> SettingsValue {
        var parser = JSON5Parser(scalars)
        try parser.text.skipSpace()
        let value = try parser.value(at: .root, depth: 0)
        try parser.text.skipSpace()
        if parser.text.peek != nil {
            throw parser.text.failure(
                "something follows the end of the settings; remove it, or the bracket that closed them too early",
                at: parser.text.offset)
        }
        return value
    }

    private mutating func value(at path: SettingsPath, depth: Int) throws(SettingsError) -> SettingsValue {
        let offset = text.offset
        guard depth < Self.maximumDepth else {
            throw text.failure("more than \(Self.maximumDepth) brackets are open; close some", at: offset)
        }
        let content: SettingsValue.Content
        switch text.peek {
        case "{": content = .object(try members(at: path, depth: depth))
        case "[": content = .array(try elements(at: path, depth: depth))
        case "\"", "'": content = .string(try text.string())
        case ("0"..."9")?, "+", "-", ".": content = try text.number()
        case let scalar? where JSON5Text.beginsName(scalar): content = try word(offset)
        default: throw text.unexpected("a value")
        }
        return SettingsValue(content: content, offset: offset)
    }

    /// The words that are values. Anything else is most likely a string without its quotation marks.
    private mutating func word(_ offset: Int) throws(SettingsError) -> SettingsValue.Content {
        let word = try text.name()
        switch word {
        case "null": return .null
        case "true": return .bool(true)
        case "false": return .bool(false)
        default:
            throw text.failure("the value \(SettingsText.quoted(word)) needs quotation marks around it", at: offset)
        }
    }

    private mutating func members(
        at path: SettingsPath, depth: Int
    ) throws(SettingsError) -> [SettingsValue.Member] {
        let opening = text.offset
        var members: [SettingsValue.Member] = []
        var offsets: [String: Int] = [:]
        text.advance()
        while true {
            try text.skipSpace()
            if text.take("}") { return members }
            let offset = text.offset
            let name = try memberName(opening)
            let memberPath = path.appending(name)
            if let first = offsets.updateValue(offset, forKey: name) {
                throw SettingsError(
                    .duplicateMember,
                    "\(memberPath) is given twice, first in line \(text.line(of: first)); remove one of the two",
                    member: memberPath, offset: offset)
            }
            try text.skipSpace()
            guard text.take(":") else { throw text.unexpected("\":\" after the name \(SettingsText.quoted(name))") }
            try text.skipSpace()
            let value = try value(at: memberPath, depth: depth + 1)
            members.append(.init(name: name, offset: offset, value: value))
            try text.skipSpace()
            if text.take("}") { return members }
            guard text.take(",") else { throw separatorMissing(opening, "}") }
        }
    }

    private mutating func memberName(_ opening: Int) throws(SettingsError) -> String {
        switch text.peek {
        case "\"", "'": return try text.string()
        case let scalar? where JSON5Text.beginsName(scalar): return try text.name()
        case nil: throw separatorMissing(opening, "}")
        default: throw text.unexpected("a name or \"}\"")
        }
    }

    private mutating func elements(at path: SettingsPath, depth: Int) throws(SettingsError) -> [SettingsValue] {
        let opening = text.offset
        var elements: [SettingsValue] = []
        text.advance()
        while true {
            try text.skipSpace()
            if text.take("]") { return elements }
            elements.append(try value(at: path.appending(String(elements.count)), depth: depth + 1))
            try text.skipSpace()
            if text.take("]") { return elements }
            guard text.take(",") else { throw separatorMissing(opening, "]") }
        }
    }

    private func separatorMissing(_ opening: Int, _ bracket: Unicode.Scalar) -> SettingsError {
        guard text.peek == nil else { return text.unexpected("\",\" or \"\(bracket)\"") }
        return text.failure(
            "the bracket opened in line \(text.line(of: opening)) is never closed; add \"\(bracket)\"", at: text.offset)
    }
}
