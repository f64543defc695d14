/// SVG: up to the end tag of the root element. The check parses only constructs that can contain an angle bracket as
/// text: comments, instructions, character data, quotes in tags, and the document type. It does not compare the names
/// of start and end tags.
struct SVGTruncationCheck: TruncationCheck {
    private enum Place {
        /// Text, or white space outside the root element.
        case content
        /// Inside a construct that ends with `-->`, `?>` or `]]>`.
        case comment, instruction, characterData
        /// Inside a tag or declaration, or inside a quotation in one.
        case tag, closingTag, declaration
        case quote(UInt8, isTag: Bool)
        /// Inside the document type: outside or inside the brackets of its internal subset.
        case documentType, subset
    }
    private var place = Place.content
    private var depth = 0
    /// Whether the previous byte was a slash.
    private var isSlash = false
    /// Whether the document type's brackets are open. Comments and declarations then return to `subset`.
    private var isInSubset = false

    mutating func step(_ window: Span<UInt8>) -> TruncationStep {
        switch place {
        case .content: content(window)
        case .subset: subset(window)
        case .comment: passing(window, "-->")
        case .instruction: passing(window, "?>")
        case .characterData: passing(window, "]]>")
        case .quote(let quote, let isTag): quoted(window, quote, isTag)
        case .tag, .closingTag, .declaration, .documentType: markup(window)
        }
    }

    private mutating func content(_ window: Span<UInt8>) -> TruncationStep {
        guard window[0] == UInt8(ascii: "<") else { return .consume(window.first(UInt8(ascii: "<")) ?? window.count) }
        return opened(window)
    }

    private mutating func subset(_ window: Span<UInt8>) -> TruncationStep {
        switch window[0] {
        case UInt8(ascii: "<"): return opened(window)
        case UInt8(ascii: "]"):
            (place, isInSubset) = (.documentType, false)
            return .consume(1)
        default: return .consume(1)
        }
    }

    /// Enters the construct that begins with the `<` at the start of the window.
    private mutating func opened(_ window: Span<UInt8>) -> TruncationStep {
        guard window.count >= 2 else { return .need(2) }
        switch window[1] {
        case UInt8(ascii: "/"):
            place = .closingTag
            return .consume(2)
        case UInt8(ascii: "?"):
            place = .instruction
            return .consume(2)
        case UInt8(ascii: "!"):
            guard window.count >= 4 else { return .need(4) }
            if window.has("--", at: 2) {
                place = .comment
                return .consume(4)
            }
            if window[2] == UInt8(ascii: "[") {
                place = .characterData
                return .consume(3)
            }
            place = isInSubset ? .declaration : .documentType
            return .consume(2)
        default:
            (place, isSlash) = (isInSubset ? .declaration : .tag, false)
            return .consume(1)
        }
    }

    /// Skips bytes up to and including the text `end`.
    private mutating func passing(_ window: Span<UInt8>, _ end: StaticString) -> TruncationStep {
        let length = end.utf8CodeUnitCount
        guard window.count >= length else { return .need(length) }
        if window.has(end) {
            place = isInSubset ? .subset : .content
            return .consume(length)
        }
        let first = end.withUTF8Buffer { $0[0] }
        let rest = window.extracting(1...)
        return .consume(1 + (rest.first(first) ?? rest.count))
    }

    private mutating func quoted(_ window: Span<UInt8>, _ quote: UInt8, _ isTag: Bool) -> TruncationStep {
        guard let end = window.first(quote) else { return .consume(window.count) }
        place = isTag ? .tag : isInSubset ? .declaration : .documentType
        isSlash = false
        return .consume(end + 1)
    }

    /// Parses tags and declarations byte by byte. This is fast enough, because tags are short apart from quoted values,
    /// each of which is skipped as a whole.
    private mutating func markup(_ window: Span<UInt8>) -> TruncationStep {
        for index in 0..<window.count {
            let byte = window[index]
            switch (place, byte) {
            case (.tag, UInt8(ascii: ">")):
                if !isSlash { depth += 1 }
                if depth == 0 { return .complete(after: index + 1) }
                place = .content
                return .consume(index + 1)
            case (.closingTag, UInt8(ascii: ">")):
                depth -= 1
                if depth <= 0 { return .complete(after: index + 1) }
                place = .content
                return .consume(index + 1)
            case (.declaration, UInt8(ascii: ">")):
                place = .subset
                return .consume(index + 1)
            case (.documentType, UInt8(ascii: ">")):
                place = .content
                return .consume(index + 1)
            case (.documentType, UInt8(ascii: "[")):
                (place, isInSubset) = (.subset, true)
                return .consume(index + 1)
            case (.closingTag, _): break
            case (_, UInt8(ascii: "\"")), (_, UInt8(ascii: "'")):
                if case .tag = place { place = .quote(byte, isTag: true) } else { place = .quote(byte, isTag: false) }
                return .consume(index + 1)
            default: isSlash = byte == UInt8(ascii: "/")
            }
        }
        return .consume(window.count)
    }
}
