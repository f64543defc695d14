import LarderJSON

/// Parses scalars from their JSON text.
package enum ScalarText {
    package static func bool(_ text: UnsafeRawBufferPointer) -> Bool? {
        if text.elementsEqual("true".utf8) { return true }
        return text.elementsEqual("false".utf8) ? false : nil
    }

    /// Parses a number and rounds it to the nearest `Double`. Returns nil if the text is not a number or is out of
    /// range.
    package static func double(_ text: UnsafeRawBufferPointer) -> Double? {
        // Swift's `Double` also parses "nan" and hexadecimal digits, which are not numbers in JSON.
        guard let first = text.first, first == UInt8(ascii: "-") || first &- UInt8(ascii: "0") < 10,
            !text.contains(where: { $0 | 0x20 == UInt8(ascii: "x") || $0 | 0x20 == UInt8(ascii: "n") }),
            let value = Double(String(decoding: text, as: UTF8.self)), value.isFinite
        else { return nil }
        return value
    }

    /// Returns whether the text is a JSON string equal to `expected`.
    static func equals(_ text: UnsafeRawBufferPointer, _ expected: String) -> Bool {
        guard text.count >= 2, text.first == UInt8(ascii: "\""), text.last == UInt8(ascii: "\"") else { return false }
        let content = text[1..<(text.count - 1)]
        if content.contains(UInt8(ascii: "\\")) { return string(text)?.utf8.elementsEqual(expected.utf8) ?? false }
        return content.elementsEqual(expected.utf8)
    }

    /// Returns the content of a JSON string, with escapes resolved; nil if the text is not a string.
    package static func string(_ text: UnsafeRawBufferPointer) -> String? {
        guard text.count >= 2, text.first == UInt8(ascii: "\""), text.last == UInt8(ascii: "\"") else { return nil }
        let content = text[1..<(text.count - 1)]
        if !content.contains(UInt8(ascii: "\\")) {
            return String(validating: UnsafeRawBufferPointer(rebasing: content), as: UTF8.self)
        }
        return (try? JSONValue(parsing: [UInt8](text)))?.string
    }
}
