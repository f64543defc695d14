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
