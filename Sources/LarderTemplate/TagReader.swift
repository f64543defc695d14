/// Reads one tag of a template, byte by byte.
struct TagReader {
    let source: [UInt8]
    let delimiters: Delimiters
    /// The offset at which the tag begins.
    let start: Int
    /// The offset of the next byte to read.
    private(set) var position: Int

    /// Creates a reader for the tag whose opening delimiter is at `start`.
    init(source: [UInt8], delimiters: Delimiters, start: Int) {
        self.source = source
        self.delimiters = delimiters
        self.start = start
        position = start + delimiters.open.count
    }

    /// Reads the character that determines the kind of the tag, such as `#` for a section; nil if the tag has no such
    /// character and prints a value.
    mutating func kind() throws(TemplateError) -> UInt8? {
        skipSpace()
        guard position < source.count else { throw notClosed() }
        guard Self.kinds.contains(source[position]) else { return nil }
        position += 1
        return source[position - 1]
    }

    private static let kinds = Array("#^/!=%{&><$".utf8)

    /// Reads a reference and the end of the tag.
    mutating func reference(closing: [UInt8]) throws(TemplateError) -> Reference {
        skipSpace()
        let offset = position
        let name = name(until: closing)
        try end(closing)
        do {
            return try Reference(name, at: offset)
        } catch {
            switch error {
            case .empty: throw self.error(offset, "this tag has no name; \(Self.usage)")
            case .emptyStep:
                throw self.error(
                    offset,
                    "a name next to a dot is empty; write {{name.name}}, {{.name}} or {{.}}")
            case .parentheses:
                throw self.error(offset, "the parentheses do not match, or contain no name; \(Self.usage)")
            case .pointer:
                throw self.error(
                    offset, "a name in quotation marks is not a JSON Pointer; write {{\"/name/name\"}}")
            case .unknown(let text):
                throw TemplateError(.function, at: offset, in: source, "unknown function \(text.shownName)")
            }
        }
    }

    /// Skips the rest of a comment tag.
    mutating func comment() throws(TemplateError) { _ = try content() }

    /// Reads `CONTENT_TYPE:HTML` or `CONTENT_TYPE:TEXT` and the end of the tag.
    /// - Returns: whether the values after this tag are escaped for HTML
    mutating func contentType() throws(TemplateError) -> Bool {
        let offset = position
        switch try content().filter({ !Self.isSpace($0) }) {
        case Array("CONTENT_TYPE:HTML".utf8): return true
        case Array("CONTENT_TYPE:TEXT".utf8): return false
        default:
            throw error(offset, "only {{%CONTENT_TYPE:HTML}} and {{%CONTENT_TYPE:TEXT}} are supported")
        }
    }

    /// Reads new delimiters and the end of the tag.
    mutating func newDelimiters() throws(TemplateError) -> Delimiters {
        let offset = position
        skipSpace()
        let open = Array(word(until: delimiters.closeOfChange).utf8)
        skipSpace()
        let close = Array(word(until: delimiters.closeOfChange).utf8)
        skipSpace()
        guard !open.isEmpty, !close.isEmpty, max(open.count, close.count) <= Delimiters.maxLength,
            !(open + close).contains(UInt8(ascii: "=")), isHere(delimiters.closeOfChange)
        else {
            throw error(
                offset,
                "delimiters are invalid; write {{=<% %>=}}, with two words of at most \(Delimiters.maxLength) "
                    + "bytes without an equals sign")
        }
        position += delimiters.closeOfChange.count
        return Delimiters(open: open, close: close)
    }

    func error(_ offset: Int, _ text: String) -> TemplateError { TemplateError(.syntax, at: offset, in: source, text) }

    // MARK: Bytes

    private static let usage = "write {{name}}, {{#name}}, {{^name}}, {{/name}} or {{function(name)}}"

    private func notClosed() -> TemplateError { error(start, "a tag is not closed") }

    private mutating func end(_ closing: [UInt8]) throws(TemplateError) {
        skipSpace()
        guard isHere(closing) else {
            throw position == source.count
                ? notClosed() : error(position, "a tag is malformed; \(Self.usage)")
        }
        position += closing.count
    }

    private mutating func content() throws(TemplateError) -> ArraySlice<UInt8> {
        let first = position
        while position < source.count {
            if isHere(delimiters.close) {
                defer { position += delimiters.close.count }
                return source[first..<position]
            }
            position += 1
        }
        throw notClosed()
    }

    private mutating func word(until closing: [UInt8]) -> String {
        let first = position
        while position < source.count, !Self.isSpace(source[position]), !isHere(closing) { position += 1 }
        return String(decoding: source[first..<position], as: UTF8.self)
    }

    /// Reads a reference. A quoted JSON Pointer in it may contain spaces and the closing delimiter.
    private mutating func name(until closing: [UInt8]) -> String {
        let first = position
        let quote = UInt8(ascii: "\"")
        var isQuoted = false
        while position < source.count {
            let byte = source[position]
            if isQuoted {
                // The character after a backslash does not end the string.
                if byte == UInt8(ascii: "\\"), position + 1 < source.count { position += 1 }
                isQuoted = byte != quote
            } else if byte == quote, QuotedPointer.canBegin(after: source[first..<position].suffix(2)) {
                isQuoted = true
            } else if Self.isSpace(byte) || isHere(closing) {
                break
            }
            position += 1
        }
        return String(decoding: source[first..<position], as: UTF8.self)
    }

    private mutating func skipSpace() {
        while position < source.count, Self.isSpace(source[position]) { position += 1 }
    }

    private func isHere(_ text: [UInt8]) -> Bool {
        source[position...].starts(with: text)
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
}

/// The delimiters that open and close a tag.
struct Delimiters: Sendable {
    let open: [UInt8]
    let close: [UInt8]
    /// Closes a tag whose value is printed unescaped: `{{{name}}}`.
    let closeOfTriple: [UInt8]
    /// Closes a tag that changes the delimiters.
    let closeOfChange: [UInt8]

    /// The maximum length of a delimiter in bytes. Longer delimiters would make the search for them slow.
    static let maxLength = 16

    static let standard = Delimiters(open: Array("{{".utf8), close: Array("}}".utf8))

    init(open: [UInt8], close: [UInt8]) {
        self.open = open
        self.close = close
        closeOfTriple = [UInt8(ascii: "}")] + close
        closeOfChange = [UInt8(ascii: "=")] + close
    }
}
