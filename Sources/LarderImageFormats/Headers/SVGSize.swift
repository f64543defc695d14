/// The size that a viewer without further instructions gives to an SVG (SVG 2, section 7; CSS Images 3, section 5): its
/// `width` and `height`; what is missing follows from the other by the `viewBox`'s ratio, or is the `viewBox`'s own; and
/// without any of them 300 by 150.
struct SVGSize {
    /// The width in CSS pixels.
    let width: Double
    /// The height in CSS pixels.
    let height: Double

    /// More pixels than any side can have.
    static let largest = 2_147_483_647.0

    /// Works the size out from the attributes of the root element. What is not understood counts as missing.
    init(width: String?, height: String?, viewBox: String?) {
        let box = viewBox.flatMap(Self.box)
        switch (width.flatMap(Self.length), height.flatMap(Self.length)) {
        case (let width?, let height?): (self.width, self.height) = (width, height)
        case (let width?, nil): (self.width, self.height) = (width, box.map { width * $0.height / $0.width } ?? 150)
        case (nil, let height?): (self.width, self.height) = (box.map { height * $0.width / $0.height } ?? 300, height)
        case (nil, nil): (self.width, self.height) = box ?? (300, 150)
        }
    }

    /// A positive length in CSS pixels (CSS Values 4, section 6.2: an inch is 96 of them). Lengths that depend on fonts
    /// or on what is around are none.
    static func length(_ text: String) -> Double? {
        let text = text.utf8.drop(while: SVGHeaderParser.isSpace)
        let number = text.prefix(numberLength(text))
        let rest = text.dropFirst(number.count)
        guard let value = Double(String(decoding: number, as: UTF8.self)), value.isFinite, value > 0 else { return nil }
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
        case "pc": 16
        default: nil
        }
    }

    /// The last two of four numbers, if both are positive.
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

    /// How many of the first bytes are a number of CSS: sign, digits, fraction, exponent. An `e` that no digit follows
    /// belongs to a unit.
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
