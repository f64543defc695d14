import LarderJSON

/// Parses JSON with the extensions of JSON5 (spec.json5.org) that help people who write settings and layer files:
/// comments, unquoted names, single-quoted strings, and trailing commas. Each parsed value records its position in the
/// text.
///
/// FoundationEssentials' decoder (Swift 6.3) is not used, for three reasons. It crashes on the number `1e+`, but a
/// typing error in the settings must not stop a daemon that reloads them. Most of its errors state neither a line nor a
/// member name. If an object has duplicate members, it uses the first one without an error.
package struct JSON5Parser {
    /// The maximum nesting depth. Settings need six levels at most.
    package static let maximumDepth = 64

    /// The maximum number of reported duplicate members. An error takes time proportional to the text before it, so
    /// their number is limited.
    private static let maxDuplicates = 20

    private var text: JSON5Text
    /// The path of the value that is parsed. A copy for each value would cost up to ``maximumDepth`` steps.
    private var path = JSON5Path.root
    /// An error for each of the first ``maxDuplicates`` members whose names occur earlier in the same object.
    private var duplicates: [JSON5Error] = []

    private init(_ scalars: [Unicode.Scalar], unless isCancelled: @escaping () -> Bool) {
        text = JSON5Text(scalars, unless: isCancelled)
    }

    /// Parses a text that contains one value.
    ///
    /// - Parameter isCancelled: returns whether the result is not needed any more; called every 65,536 characters
    /// - Throws: ``JSON5Error`` with the place of the error. The code is `duplicateMember` if an object has two
    ///   members with the same name, and `cancelled` if `isCancelled` has returned true.
    package static func parse(
        _ scalars: [Unicode.Scalar], unless isCancelled: @escaping () -> Bool = { false }
    ) throws(JSON5Error) -> JSON5Value {
        let (value, duplicates) = try parseAll(scalars, unless: isCancelled)
        if let duplicate = duplicates.first { throw duplicate.placed(in: scalars) }
        return value
    }

    /// Parses a text that contains one value. Returns the value, and errors for the first duplicate members.
    ///
    /// - Parameter isCancelled: see ``parse(_:unless:)``
    /// - Throws: ``JSON5Error`` with the code `syntax` or `cancelled` and the place of the error
    package static func parseAll(
        _ scalars: [Unicode.Scalar], unless isCancelled: @escaping () -> Bool = { false }
    ) throws(JSON5Error) -> (value: JSON5Value, duplicates: [JSON5Error]) {
        var parser = JSON5Parser(scalars, unless: isCancelled)
        do throws(JSON5Error) {
            return (try parser.document(), parser.duplicates)
        } catch {
            throw error.placed(in: scalars)
        }
    }

    private mutating func document() throws(JSON5Error) -> JSON5Value {
        try text.skipSpace()
        let value = try value(depth: 0)
        try text.skipSpace()
        guard text.peek == nil else {
            throw text.failure(
                "text follows the end of the document; remove it, or the bracket that closed the document too early",
                at: text.offset)
        }
        return value
    }

    /// Decodes UTF-8.
    ///
    /// - Parameter isCancelled: see ``parse(_:unless:)``
    /// - Throws: ``JSON5Error`` with the offset, in Unicode scalars, of the first invalid byte, or with the code
    ///   `cancelled`
    package static func scalars(
        of bytes: [UInt8], unless isCancelled: @escaping () -> Bool = { false }
    ) throws(JSON5Error) -> [Unicode.Scalar] {
        if let text = String(validating: bytes, as: UTF8.self) {
            var cancellation = JSON5Cancellation(isCancelled)
            var scalars: [Unicode.Scalar] = []
            scalars.reserveCapacity(bytes.count)
            for scalar in text.unicodeScalars {
                try cancellation.check(at: scalars.count)
                scalars.append(scalar)
            }
            return scalars
        }
        var decoder = UTF8()
        var rest = bytes.makeIterator()
        var valid: [Unicode.Scalar] = []
        while case .scalarValue(let scalar) = decoder.decode(&rest) { valid.append(scalar) }
        throw JSON5Error(
            .syntax, "the text is not UTF-8 from here on; save the file as UTF-8", offset: valid.count
        ).placed(in: valid)
    }

    private mutating func value(depth: Int) throws(JSON5Error) -> JSON5Value {
        let offset = text.offset
        guard depth < Self.maximumDepth else {
            throw text.failure(
                "more than \(Self.maximumDepth) arrays and objects are nested; reduce the nesting", at: offset)
        }
        let content: JSON5Value.Content
        switch text.peek {
        case "{": content = .object(try members(depth))
        case "[": content = .array(try elements(depth))
        case "\"", "'": content = .string(try text.string())
        case ("0"..."9")?, "+", "-", ".": content = try text.number()
        case let scalar? where JSON5Text.beginsName(scalar): content = try word(offset)
        default: throw text.unexpected("a value")
        }
        return JSON5Value(content: content, offset: offset)
    }

    /// Parses `null`, `true` or `false`. Any other word is probably a string without quotation marks.
    private mutating func word(_ offset: Int) throws(JSON5Error) -> JSON5Value.Content {
        _ = try text.name()
        let word = text.slice(offset)
        switch word {
        case "null": return .null
        case "true": return .bool(true)
        case "false": return .bool(false)
        default:
            let shown = JSON5Shown.quoted(word)
            throw text.failure("the value \(shown) needs quotation marks around it", quotation: shown, at: offset)
        }
    }

    private mutating func members(_ depth: Int) throws(JSON5Error) -> [JSON5Value.Member] {
        let opening = text.offset
        var members: [JSON5Value.Member] = []
        var offsets: [ExactText: Int] = [:]
        text.advance()
        while true {
            try text.skipSpace()
            if text.take("}") { return members }
            let offset = text.offset
            let name = try memberName(opening)
            if let first = offsets.updateValue(offset, forKey: ExactText(name)),
                duplicates.count < Self.maxDuplicates
            {
                let memberPath = path.appending(name)
                duplicates.append(
                    JSON5Error(
                        .duplicateMember,
                        "\(memberPath) is given twice, first in line \(text.line(of: first)); remove one of the two",
                        member: memberPath, offset: offset))
            }
            try text.skipSpace()
            guard text.take(":") else {
                let shown = JSON5Shown.quoted(name)
                throw text.unexpected("\":\" after the name \(shown)", quotation: shown)
            }
            try text.skipSpace()
            path.append(name)
            let value = try value(depth: depth + 1)
            path.removeLast()
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

    private mutating func elements(_ depth: Int) throws(JSON5Error) -> [JSON5Value] {
        let opening = text.offset
        var elements: [JSON5Value] = []
        text.advance()
        while true {
            try text.skipSpace()
            if text.take("]") { return elements }
            path.append(elements.count)
            elements.append(try value(depth: depth + 1))
            path.removeLast()
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

/// The reason why a text is not a JSON5 document.
package struct JSON5Error: Error, Sendable {
    package enum Code: Sendable {
        /// The text is not valid UTF-8, or not valid JSON5.
        case syntax
        /// An object has two members with the same name.
        case duplicateMember
        /// The result of the parse is not needed any more.
        case cancelled
    }

    package let code: Code
    /// A text for people, in one line: what is wrong and how to fix it.
    package let reason: String
    /// The part of ``reason`` that quotes the document, including its quotation marks; nil if none does. Programs that
    /// must not show the content of a document replace it.
    package let quotation: String?
    /// The member that the error is about, if any.
    package let member: JSON5Path?
    /// The position of the error, in Unicode scalars from the start.
    package let offset: Int
    /// The line and column of the error, both from 1, the column in Unicode scalars; nil unless the error was returned
    /// by ``placed(in:)``.
    package private(set) var place: (line: Int, column: Int)?

    package init(_ code: Code, _ reason: String, quotation: String? = nil, member: JSON5Path? = nil, offset: Int) {
        (self.code, self.reason, self.quotation, self.member, self.offset) = (code, reason, quotation, member, offset)
    }

    /// Returns the error with its line and column.
    package func placed(in scalars: [Unicode.Scalar]) -> JSON5Error {
        var error = self
        error.place = JSON5Text.place(of: offset, in: scalars)
        return error
    }
}
