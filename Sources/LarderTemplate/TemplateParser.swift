/// Parses the text of a template into instructions.
struct TemplateParser {
    private struct Section {
        let reference: Reference
        /// The index of the instruction that starts the section.
        let open: Int
        let delimiters: Delimiters
        let isEscaped: Bool
    }

    private let source: [UInt8]
    private(set) var instructions: [Instruction] = []
    /// The open sections. A change of the delimiters or of escaping inside a section lasts until the end of the
    /// section.
    private var sections: [Section] = []
    private var delimiters = Delimiters.standard
    private var isEscaped = false
    /// The offset of the first byte that is not yet part of an instruction.
    private var textStart = 0
    /// Whether the byte at `textStart` is the first of a line.
    private var isAtLineStart = true

    /// Parses a template.
    init(_ source: [UInt8]) throws(TemplateError) {
        self.source = source
        while let start = nextTag() { try read(TagReader(source: source, delimiters: delimiters, start: start)) }
        endText(at: source.count, next: source.count)
        guard let section = sections.last else { return }
        throw error(
            source.count,
            "the template ends within a section; close the section of line \(line(of: section)) with "
                + "{{/\(section.reference.text.shownName)}}")
    }

    private mutating func read(_ tag: TagReader) throws(TemplateError) {
        var tag = tag
        let kind = try tag.kind()
        switch kind.map(UnicodeScalar.init) {
        case "!":
            try tag.comment()
            endText(before: tag, mayStandAlone: true)
        case "=":
            let changed = try tag.newDelimiters()
            endText(before: tag, mayStandAlone: true)
            delimiters = changed
        case "%":
            isEscaped = try tag.contentType()
            endText(before: tag, mayStandAlone: true)
        case "#", "^":
            let reference = try tag.reference(closing: delimiters.close)
            endText(before: tag, mayStandAlone: true)
            try open(reference, isInverted: kind == UInt8(ascii: "^"))
        case "/":
            let reference = try tag.reference(closing: delimiters.close)
            endText(before: tag, mayStandAlone: true)
            try close(reference)
        case ">": throw error(tag.start, "one template cannot include another; write a single file")
        case "<", "$": throw error(tag.start, "one template cannot inherit from another; write a single file")
        default:
            let isTriple = kind == UInt8(ascii: "{")
            let reference = try tag.reference(closing: isTriple ? delimiters.closeOfTriple : delimiters.close)
            endText(before: tag, mayStandAlone: false)
            instructions.append(.value(reference, isEscaped: isEscaped && kind == nil))
        }
    }

    // MARK: Sections

    private mutating func open(_ reference: Reference, isInverted: Bool) throws(TemplateError) {
        guard sections.count < Template.maxDepth else {
            throw error(reference.offset, "sections are nested deeper than \(Template.maxDepth) levels")
        }
        sections.append(
            Section(
                reference: reference, open: instructions.count, delimiters: delimiters, isEscaped: isEscaped))
        instructions.append(.open(reference, isInverted: isInverted, close: 0))
    }

    private mutating func close(_ reference: Reference) throws(TemplateError) {
        guard let section = sections.popLast() else {
            throw error(reference.offset, "this closes a section, but none is open")
        }
        guard section.reference == reference,
            case .open(let opened, let isInverted, _) = instructions[section.open]
        else {
            throw error(
                reference.offset,
                "the section of line \(line(of: section)) is still open; close it first with "
                    + "{{/\(section.reference.text.shownName)}}")
        }
        instructions[section.open] = .open(opened, isInverted: isInverted, close: instructions.count)
        instructions.append(.close(open: section.open))
        delimiters = section.delimiters
        isEscaped = section.isEscaped
    }

    /// The line in which a section starts, from 1.
    private func line(of section: Section) -> Int {
        TemplateError.Place(of: section.reference.offset, in: source).line
    }

    // MARK: Text

    private func nextTag() -> Int? {
        let open = delimiters.open
        var position = textStart
        while position < source.count {
            if source[position] == open[0], source[position...].starts(with: open) { return position }
            position += 1
        }
        return nil
    }

    /// Adds an instruction for the text before a tag. If `mayStandAlone` is true and the lines of the tag contain only
    /// blanks besides the tag, these blanks and the line end after the tag are dropped.
    private mutating func endText(before tag: TagReader, mayStandAlone: Bool) {
        if mayStandAlone, let start = lineStart(before: tag.start), let next = nextLine(after: tag.position) {
            endText(at: start, next: next)
            isAtLineStart = true
        } else {
            endText(at: tag.start, next: tag.position)
            isAtLineStart = false
        }
    }

    private mutating func endText(at end: Int, next: Int) {
        if textStart < end { instructions.append(.text(textStart..<end)) }
        textStart = next
    }

    /// Returns the start of the line that contains a tag if there are only blanks before the tag; otherwise nil.
    private func lineStart(before tag: Int) -> Int? {
        var position = tag
        while position > textStart, Self.isBlank(source[position - 1]) { position -= 1 }
        if position == textStart { return isAtLineStart ? position : nil }
        return source[position - 1] == UInt8(ascii: "\n") ? position : nil
    }

    /// Returns the start of the line after a tag if there are only blanks between the tag and that line; otherwise nil.
    private func nextLine(after tag: Int) -> Int? {
        var position = tag
        while position < source.count, Self.isBlank(source[position]) { position += 1 }
        if position == source.count { return position }
        if source[position] == UInt8(ascii: "\r") { position += 1 }
        return position < source.count && source[position] == UInt8(ascii: "\n") ? position + 1 : nil
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    private func error(_ offset: Int, _ text: String) -> TemplateError {
        TemplateError(.syntax, at: offset, in: source, text)
    }
}
