/// SVG: until the root element is closed. Only what hides an angle bracket is understood: comments, instructions, character
/// data, quotes in tags and the document type. Whether the names of tags agree is the decoder's to find.
struct SVGTruncationCheck: TruncationCheck {
    private enum Place {
        /// Text, or the space before the root.
        case content
        /// Up to one of these texts.
        case comment, instruction, characterData
        /// A tag or a declaration, and the quote that is open in it.
        case tag, closingTag, declaration
        case quote(UInt8, isTag: Bool)
        /// The document type, within its brackets and without.
        case documentType, subset
    }
    private var place = Place.content
    private var depth = 0
    /// Whether the byte before was a slash.
    private var isSlash = false
    /// Whether the document type's brackets are open, into which comments and declarations lead back.
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

    /// After an opening bracket.
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

    /// Passes over what ends with a text of which no proper part is its beginning twice.
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

    /// Byte by byte: tags are short, and their long parts are quoted.
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
