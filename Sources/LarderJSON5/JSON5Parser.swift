/// Reads JSON with the parts of JSON5 (spec.json5.org) that help people who write settings and layer files: comments, names
/// without quotation marks, strings in single ones, and a comma behind the last element. Every value has its place.
///
/// They are parsed here, and not by FoundationEssentials' decoder, because that one (Swift 6.3) ends the process
/// at the number `1e+`, which a typing error must not do to a daemon that reloads; says neither line nor member
/// for most errors; and keeps the first of two members with one name in silence.
package struct JSON5Parser {
    /// Nesting beyond this is refused. No setting is nested deeper than six objects.
    package static let maximumDepth = 64

    private var text: JSON5Text
    /// Members that repeat the name of one before them.
    private var duplicates: [JSON5Error] = []

    private init(_ scalars: [Unicode.Scalar]) {
        text = JSON5Text(scalars)
    }

    /// The one value that a text holds.
    ///
    /// - Throws: ``JSON5Error`` with its offset; with `duplicateMember` if an object has two members of one name.
    package static func parse(_ scalars: [Unicode.Scalar]) throws(JSON5Error) -> JSON5Value {
        let (value, duplicates) = try parseAll(scalars)
        if let duplicate = duplicates.first { throw duplicate }
        return value
    }

    /// The one value that a text holds, and an error for each member that repeats a name.
    ///
    /// - Throws: ``JSON5Error`` with `syntax` and its offset.
    package static func parseAll(
        _ scalars: [Unicode.Scalar]
    ) throws(JSON5Error) -> (value: JSON5Value, duplicates: [JSON5Error]) {
        var parser = JSON5Parser(scalars)
        try parser.text.skipSpace()
        let value = try parser.value(at: .root, depth: 0)
        try parser.text.skipSpace()
        if parser.text.peek != nil {
            throw parser.text.failure(
                "something follows the end of the document; remove it, or the bracket that closed it too early",
                at: parser.text.offset)
        }
        return (value, parser.duplicates)
    }

    /// The characters of a file.
    ///
    /// - Throws: ``JSON5Error`` with the place at which the bytes stop being UTF-8.
    package static func scalars(of bytes: [UInt8]) throws(JSON5Error) -> [Unicode.Scalar] {
        if let text = String(validating: bytes, as: UTF8.self) { return Array(text.unicodeScalars) }
        var decoder = UTF8()
        var rest = bytes.makeIterator()
        var valid: [Unicode.Scalar] = []
        while case .scalarValue(let scalar) = decoder.decode(&rest) { valid.append(scalar) }
        throw JSON5Error(
            .syntax, "the text is not UTF-8 from here on; save the file as UTF-8", offset: valid.count
        ).placed(in: valid)
    }

    private mutating func value(at path: JSON5Path, depth: Int) throws(JSON5Error) -> JSON5Value {
        let offset = text.offset
        guard depth < Self.maximumDepth else {
            throw text.failure("more than \(Self.maximumDepth) brackets are open; close some", at: offset)
        }
        let content: JSON5Value.Content
        switch text.peek {
        case "{": content = .object(try members(at: path, depth: depth))
        case "[": content = .array(try elements(at: path, depth: depth))
        case "\"", "'": content = .string(try text.string())
        case ("0"..."9")?, "+", "-", ".": content = try text.number()
        case let scalar? where JSON5Text.beginsName(scalar): content = try word(offset)
        default: throw text.unexpected("a value")
        }
        return JSON5Value(content: content, offset: offset)
    }

    /// The words that are values. Anything else is most likely a string without its quotation marks.
    private mutating func word(_ offset: Int) throws(JSON5Error) -> JSON5Value.Content {
        let word = try text.name()
        switch word {
        case "null": return .null
        case "true": return .bool(true)
        case "false": return .bool(false)
        default:
            throw text.failure("the value \(JSON5Shown.quoted(word)) needs quotation marks around it", at: offset)
        }
    }

    private mutating func members(
        at path: JSON5Path, depth: Int
    ) throws(JSON5Error) -> [JSON5Value.Member] {
        let opening = text.offset
        var members: [JSON5Value.Member] = []
        var offsets: [String: Int] = [:]
        text.advance()
        while true {
            try text.skipSpace()
            if text.take("}") { return members }
            let offset = text.offset
            let name = try memberName(opening)
            let memberPath = path.appending(name)
            if let first = offsets.updateValue(offset, forKey: name) {
                duplicates.append(
                    JSON5Error(
                        .duplicateMember,
                        "\(memberPath) is given twice, first in line \(text.line(of: first)); remove one of the two",
                        member: memberPath, offset: offset))
            }
            try text.skipSpace()
            guard text.take(":") else { throw text.unexpected("\":\" after the name \(JSON5Shown.quoted(name))") }
            try text.skipSpace()
            let value = try value(at: memberPath, depth: depth + 1)
            members.append(.init(name: name, offset: offset, value: value))
            try text.skipSpace()
            if text.take("}") { return members }
            guard text.take(",") else { throw separatorMissing(opening, "}") }
        }
    }

    private mutating func memberName(_ opening: Int) throws(JSON5Error) -> String {
        switch text.peek {
        case "\"", "'": return try text.string()
        case let scalar? where JSON5Text.beginsName(scalar): return try text.name()
        case nil: throw separatorMissing(opening, "}")
        default: throw text.unexpected("a name or \"}\"")
        }
    }

    private mutating func elements(at path: JSON5Path, depth: Int) throws(JSON5Error) -> [JSON5Value] {
        let opening = text.offset
        var elements: [JSON5Value] = []
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

    private func separatorMissing(_ opening: Int, _ bracket: Unicode.Scalar) -> JSON5Error {
        guard text.peek == nil else { return text.unexpected("\",\" or \"\(bracket)\"") }
        return text.failure(
            "the bracket opened in line \(text.line(of: opening)) is never closed; add \"\(bracket)\"", at: text.offset)
    }
}
