/// Copies text that needs no escapes in a JSON string, eight bytes at a time. Never reads past the end of the text,
/// because the memory behind it may not be readable.
enum PlainText {
    /// The number of bytes that ``frame(_:into:comma:colon:)`` needs in addition to the text.
    static let frameCount = 4

    /// Writes `text` in quotation marks, optionally with a comma before and a colon after it. Returns the number of
    /// bytes written, or 0 if the text must be escaped. `output` must have room for the text and `frameCount` bytes.
    @inline(__always)
    static func frame(
        _ text: UnsafeRawBufferPointer, into output: UnsafeMutablePointer<UInt8>, comma: Bool, colon: Bool
    ) -> Int {
        // Comma and colon are always written. If no comma is wanted, the quotation mark overwrites it. If no colon is
        // wanted, the returned count does not include it.
        output[0] = UInt8(ascii: ",")
        let start = comma ? 2 : 1
        output[start - 1] = UInt8(ascii: "\"")
        guard copy(text, to: UnsafeMutableRawPointer(output + start)) else { return 0 }
        let end = start &+ text.count
        output[end] = UInt8(ascii: "\"")
        output[end &+ 1] = UInt8(ascii: ":")
        return end &+ (colon ? 2 : 1)
    }

    /// Copies `text`. Returns false if a character in `text` must be escaped.
    @inline(__always)
    private static func copy(_ text: UnsafeRawBufferPointer, to output: UnsafeMutableRawPointer) -> Bool {
        let count = text.count
        var found: UInt64 = 0
        if count >= 8 {
            var index = 0
            while index &+ 8 <= count {
                found |= word(text, index, to: output)
                index &+= 8
            }
            // The last eight bytes are copied as one more word. It overlaps the previous word, and is the same word if
            // the size is a multiple of eight.
            return found | word(text, count - 8, to: output) == 0
        }
        if count >= 4 {
            // The first and the last four bytes are checked as one word. They may overlap.
            let low = text.loadUnaligned(as: UInt32.self)
            let high = text.loadUnaligned(fromByteOffset: count - 4, as: UInt32.self)
            output.storeBytes(of: low, as: UInt32.self)
            output.storeBytes(of: high, toByteOffset: count - 4, as: UInt32.self)
            return Word.escaped(UInt64(low) | UInt64(high) &<< 32) == 0
        }
        for index in 0..<count {
            let byte = text[index]
            output.storeBytes(of: byte, toByteOffset: index, as: UInt8.self)
            if isEscaped(byte) { return false }
        }
        return true
    }

    @inline(__always)
    private static func word(_ text: UnsafeRawBufferPointer, _ index: Int, to output: UnsafeMutableRawPointer) -> UInt64
    {
        let word = text.loadUnaligned(fromByteOffset: index, as: UInt64.self)
        output.storeBytes(of: word, toByteOffset: index, as: UInt64.self)
        return Word.escaped(word)
    }

    @inline(__always)
    static func isEscaped(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }
}

/// Writes integers in decimal.
enum Decimal {
    /// The number of digits of `number`.
    @inline(__always)
    static func digitCount(_ number: UInt64) -> Int {
        var count = 1
        var rest = number
        // Most numbers are smaller than 10,000.
        while rest >= 10_000 {
            rest /= 10_000
            count += 4
        }
        if rest >= 1000 { return count + 3 }
        if rest >= 100 { return count + 2 }
        return rest >= 10 ? count + 1 : count
    }

    /// Writes the digits of `number` into the bytes before `end`.
    @inline(__always)
    static func write(_ number: UInt64, endingAt end: UnsafeMutablePointer<UInt8>) {
        var cursor = end
        var rest = number
        repeat {
            cursor -= 1
            let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
            cursor.pointee = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: digit)
            rest = quotient
        } while rest > 0
    }
}
