/// SVG (version 2, in XML 1.0): the start tag of the root element, after a prolog of declarations, comments, processing
/// instructions and a document type, all of which are skipped. Entities are never expanded.
///
/// The namespace of the root element is ignored, because widespread editors write it as an entity. Any ASCII-compatible
/// encoding is accepted; ``FormatSniffer`` rejects UTF-16.
struct SVGHeaderParser: TypedHeaderParser {
    var type: ImageType { .svg }
    static var lookAhead: Int { 1 << 20 }

    /// The maximum length of a name or value. Longer texts are irrelevant and are treated as empty.
    private static let maxTextBytes = 128

    private enum State {
        case prolog, opened, exclamation, comment, instruction
        case documentType, documentTypeQuote, subset, declaration, declarationQuote
        case rootName, tag, attributeName, afterName, beforeValue, value, closing
    }

    private var state = State.prolog
    /// Whether the current comment, instruction or declaration is in the internal subset of the document type.
    private var isInSubset = false
    /// The delimiter that ends the current quoted text.
    private var quote: UInt8 = 0
    /// The last four bytes of the current comment or instruction, with the latest in the lowest byte.
    private var tail: UInt32 = 0
    private var count = 0
    private var text: [UInt8] = []
    private var isNameWhole = false
    /// The current attribute; nil if the size does not depend on it.
    private var attribute: Attribute?
    private var attributes: [Attribute: String] = [:]

    private enum Attribute {
        case width, height, viewBox

        init?(_ name: [UInt8]) {
            if name.elementsEqual("width".utf8) {
                self = .width
            } else if name.elementsEqual("height".utf8) {
                self = .height
            } else if name.elementsEqual("viewBox".utf8) {
                self = .viewBox
            } else {
                return nil
            }
        }
    }

    /// Whether the window may be the start of a document: an optional byte order mark, optional white space, then `<`.
    static func mayBegin(_ window: Span<UInt8>) -> Bool {
        var offset = window[0] == 0xEF && window[1] == 0xBB && window[2] == 0xBF ? 3 : 0
        while offset < window.count, isSpace(window[offset]) { offset += 1 }
        guard offset < window.count else { return true }
        return window[offset] == UInt8(ascii: "<") && !(offset + 1 < window.count && window[offset + 1] == 0)
    }

    mutating func read(_ window: Span<UInt8>) throws(Unreadable) -> HeaderStep {
        for index in 0..<window.count {
            if let end = take(window[index]) { return end }
            count += 1
        }
        return .consume(window.count)
    }

    func ended(_ window: Span<UInt8>) -> ImageFormatError {
        switch state {
        case .prolog, .opened, .exclamation, .comment, .instruction: .notAnImage("text without an element")
        default: .truncated(.svg)
        }
    }

    private mutating func take(_ byte: UInt8) -> HeaderStep? {
        switch state {
        case .prolog, .opened, .exclamation, .comment, .instruction: return takeProlog(byte)
        case .documentType, .documentTypeQuote, .subset, .declaration, .declarationQuote: return takeType(byte)
        default: return takeRoot(byte)
        }
    }

    // MARK: - Before the root element

    private mutating func takeProlog(_ byte: UInt8) -> HeaderStep? {
        switch state {
        case .prolog:
            if byte == UInt8(ascii: "<") {
                state = .opened
            } else if !Self.isSpace(byte), !(count < 3 && [0xEF, 0xBB, 0xBF].contains(byte)) {
                return .rejected(.notAnImage("text"))
            }
        case .opened:
            tail = 0
            text = []
            switch byte {
            case UInt8(ascii: "!"): state = .exclamation
            case UInt8(ascii: "?"): state = .instruction
            default:
                // An element in an internal subset is an error; it is skipped here and left to decoders to report.
                state = isInSubset ? .declaration : .rootName
                return take(byte)
            }
        case .exclamation:
            append(byte)
            if text.elementsEqual("--".utf8) {
                state = .comment
            } else if isInSubset, text.first != UInt8(ascii: "-") {
                state = .declaration
                return take(byte)
            } else if text.count == 7 {
                guard String(decoding: text, as: UTF8.self).uppercased() == "DOCTYPE" else {
                    return .rejected(.notAnImage("text in angle brackets"))
                }
                (state, text, isNameWhole) = (.documentType, [], false)
            }
        case .comment, .instruction:
            tail = tail << 8 | UInt32(byte)
            // "-->" and "?>". `tail` starts empty, so the dashes of "<!--" cannot end the comment.
            let isEnd = state == .comment ? tail & 0xFF_FFFF == 0x2D2D3E : tail & 0xFFFF == 0x3F3E
            if isEnd { state = isInSubset ? .subset : .prolog }
        default: break
        }
        return nil
    }

    // MARK: - The document type

    private mutating func takeType(_ byte: UInt8) -> HeaderStep? {
        switch (state, byte) {
        case (.documentTypeQuote, quote): state = .documentType
        case (.declarationQuote, quote): state = .declaration
        case (.documentTypeQuote, _), (.declarationQuote, _): break
        case (.documentType, UInt8(ascii: "\"")), (.documentType, UInt8(ascii: "'")):
            (state, quote) = (.documentTypeQuote, byte)
        case (.declaration, UInt8(ascii: "\"")), (.declaration, UInt8(ascii: "'")):
            (state, quote) = (.declarationQuote, byte)
        case (.documentType, UInt8(ascii: "[")):
            (state, isInSubset) = (.subset, true)
            return endOfTypeName()
        case (.documentType, UInt8(ascii: ">")):
            state = .prolog
            return endOfTypeName()
        case (.documentType, _):
            if Self.isSpace(byte) { return text.isEmpty ? nil : endOfTypeName() }
            if !isNameWhole { append(byte) }
        case (.subset, UInt8(ascii: "]")): (state, isInSubset) = (.documentType, false)
        case (.subset, UInt8(ascii: "<")): state = .opened
        case (.declaration, UInt8(ascii: ">")): state = .subset
        default: break
        }
        return nil
    }

    /// Ends the name of the document type, unless it has ended before. Returns the rejection of a document type named
    /// `html`; nil for any other name.
    private mutating func endOfTypeName() -> HeaderStep? {
        if isNameWhole { return nil }
        isNameWhole = true
        return String(decoding: text, as: UTF8.self).lowercased() == "html" ? .rejected(.notAnImage("HTML")) : nil
    }

    // MARK: - The root element

    private mutating func takeRoot(_ byte: UInt8) -> HeaderStep? {
        let isSpace = Self.isSpace(byte)
        let isClosing = byte == UInt8(ascii: ">")
        switch state {
        case .rootName:
            if byte == UInt8(ascii: "<") { return .rejected(.notAnImage("text in angle brackets")) }
            guard isSpace || isClosing || byte == UInt8(ascii: "/") else {
                append(byte)
                return nil
            }
            if let rejection = rejectionOfRoot() { return rejection }
            state = .tag
            return take(byte)
        case .tag:
            if isSpace { return nil }
            if isClosing { return size() }
            if byte == UInt8(ascii: "/") {
                state = .closing
                return nil
            }
            (state, text) = (.attributeName, [byte])
        case .closing:
            return isClosing ? size() : damaged("its root element is not well-formed")
        case .attributeName, .afterName:
            if byte == UInt8(ascii: "=") {
                attribute = Attribute(text)
                state = .beforeValue
            } else if isSpace {
                state = .afterName
            } else if state == .afterName || isClosing || byte == UInt8(ascii: "<") {
                return damaged("an attribute of its root element has no value")
            } else {
                append(byte)
            }
        case .beforeValue:
            if isSpace { return nil }
            guard byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") else {
                return damaged("an attribute of its root element is not quoted")
            }
            (state, quote, text) = (.value, byte, [])
        case .value:
            guard byte == quote else {
                append(byte)
                return nil
            }
            if let attribute, attributes[attribute] == nil {
                attributes[attribute] = text.count < Self.maxTextBytes ? String(decoding: text, as: UTF8.self) : ""
            }
            state = .tag
        default: break
        }
        return nil
    }

    private func rejectionOfRoot() -> HeaderStep? {
        let name = String(decoding: text, as: UTF8.self)
        let local = name.split(separator: ":").last.map(String.init) ?? ""
        if local == "svg" { return nil }
        if ["html", "head", "body", "script", "title", "meta", "div", "p"].contains(local.lowercased()) {
            return .rejected(.notAnImage("HTML"))
        }
        let isPlain = text.count <= 32 && text.allSatisfy { (0x21...0x7E).contains($0) }
        return .rejected(.notAnImage(isPlain && !local.isEmpty ? "XML with the root element \(name)" : "text"))
    }

    private func size() -> HeaderStep {
        let size = SVGSize(width: attributes[.width], height: attributes[.height], viewBox: attributes[.viewBox])
        guard max(size.width, size.height) <= SVGSize.largest else { return damaged("its size is too large") }
        return found(Int(max(1, size.width.rounded())), Int(max(1, size.height.rounded())), frames: 1)
    }

    private mutating func append(_ byte: UInt8) {
        if text.count < Self.maxTextBytes { text.append(byte) }
    }

    static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (byte >= 0x09 && byte <= 0x0D) }
}

/// The size at which a viewer shows an SVG by default (SVG 2, section 7; CSS Images 3, section 5): its `width` and
/// `height`. If one is missing, it follows from the other and the aspect ratio of `viewBox`. If both are missing, the
/// size is that of `viewBox`. Without a `viewBox` a missing width is 300 and a missing height 150.
struct SVGSize {
    /// In CSS pixels.
    let width: Double
    /// In CSS pixels.
    let height: Double

    /// The maximum length of a side, in pixels.
    static let largest = 2_147_483_647.0

    /// Computes the size from the attributes of the root element. Invalid attributes count as missing.
    init(width: String?, height: String?, viewBox: String?) {
        let box = viewBox.flatMap(Self.box)
        switch (width.flatMap(Self.length), height.flatMap(Self.length)) {
        case (let width?, let height?): (self.width, self.height) = (width, height)
        case (let width?, nil): (self.width, self.height) = (width, box.map { width * $0.height / $0.width } ?? 150)
        case (nil, let height?): (self.width, self.height) = (box.map { height * $0.width / $0.height } ?? 300, height)
        case (nil, nil): (self.width, self.height) = box ?? (300, 150)
        }
    }

    /// A length of at least 0, converted to CSS pixels, 96 per inch (CSS Values 4, section 6.2). Lengths relative to the
    /// font assume the default font size of browsers, 16 pixels. Nil if the text is invalid or its unit is relative to
    /// the viewport.
    static func length(_ text: String) -> Double? {
        let text = text.utf8.drop(while: SVGHeaderParser.isSpace)
        let number = text.prefix(numberLength(text))
        let rest = text.dropFirst(number.count)
        guard let value = Double(String(decoding: number, as: UTF8.self)), value.isFinite, value >= 0 else {
            return nil
        }
        let unit = String(decoding: rest.prefix { !SVGHeaderParser.isSpace($0) }, as: UTF8.self)
        return pixels(unit.lowercased()).map { value * $0 }
    }

    private static func pixels(_ unit: String) -> Double? {
        switch unit {
        case "", "px": 1
        case "in": 96
        case "cm": 96 / 2.54
        case "mm": 96 / 25.4
        case "q": 96 / 101.6
        case "pt": 96.0 / 72
        case "pc", "em", "rem": 16
        case "ex", "ch": 8
        default: nil
        }
    }

    /// The width and height of a `viewBox`: the last two of its four numbers. Nil if either is not positive or the text
    /// does not have four numbers.
    static func box(_ text: String) -> (width: Double, height: Double)? {
        let words = text.utf8.split { SVGHeaderParser.isSpace($0) || $0 == UInt8(ascii: ",") }
        let numbers = words.compactMap { word -> Double? in
            guard numberLength(word) == word.count else { return nil }
            return Double(String(decoding: word, as: UTF8.self))
        }
        guard words.count == 4, numbers.count == 4, numbers[2] > 0, numbers[3] > 0,
            numbers.allSatisfy(\.isFinite)
        else { return nil }
        return (numbers[2], numbers[3])
    }

    /// The length in bytes of the CSS number at the start of `text`: sign, digits, fraction, exponent. 0 if there is
    /// none. An `e` that is not followed by digits belongs to the unit.
    private static func numberLength(_ text: Substring.UTF8View.SubSequence) -> Int {
        let bytes = Array(text)
        var index = 0
        func digits() -> Int {
            let start = index
            while index < bytes.count, (0x30...0x39).contains(bytes[index]) { index += 1 }
            return index - start
        }
        func isSign(_ at: Int) -> Bool { at < bytes.count && (bytes[at] == 0x2B || bytes[at] == 0x2D) }
        if isSign(index) { index += 1 }
        var count = digits()
        if index < bytes.count, bytes[index] == UInt8(ascii: ".") {
            index += 1
            count += digits()
        }
        guard count > 0 else { return 0 }
        let end = index
        guard index < bytes.count, bytes[index] | 0x20 == UInt8(ascii: "e") else { return end }
        index += isSign(index + 1) ? 2 : 1
        return digits() > 0 ? index : end
    }
}
