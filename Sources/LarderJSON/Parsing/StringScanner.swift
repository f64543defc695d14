/// Finds the end of a string and validates its content.
///
/// All reads stay within the text and its zero padding: each step checks a byte before moving past that byte, and no
/// step moves past a zero byte.
enum StringScanner {
    struct Result {
        /// The closing quotation mark, or the position of the error.
        var end: UnsafePointer<UInt8>
        var escaped: Bool
        var failure: ParseFailure.Kind?
    }

    /// The first byte at or after `start` that needs a check: a quotation mark, a backslash, a control character or a
    /// byte of a multibyte character. All bytes before it are called plain ASCII here.
    @inline(__always)
    static func plainEnd(_ start: UnsafePointer<UInt8>) -> UnsafePointer<UInt8> {
        var cursor = start
        while true {
            let special = Word.special(Word.load(cursor))
            if special != 0 { return cursor + (special.trailingZeroBitCount &>> 3) }
            cursor += 8
        }
    }

    /// Scans the rest of a string. `start` is the first byte of the string that is not plain ASCII (see
    /// ``plainEnd(_:)``).
    @inline(never)
    static func finish(_ start: UnsafePointer<UInt8>, end: UnsafePointer<UInt8>) -> Result {
        var cursor = start
        var escaped = false
        while true {
            let byte = cursor.pointee
            if byte == UInt8(ascii: "\"") { return Result(end: cursor, escaped: escaped, failure: nil) }
            if byte >= 0x80 {
                repeat {
                    let length = characterLength(cursor)
                    if length == 0 {
                        let truncated = isTruncated(cursor, end: end)
                        return Result(
                            end: cursor, escaped: escaped, failure: truncated ? .truncatedUTF8 : .invalidUTF8)
                    }
                    cursor += length
                } while cursor.pointee >= 0x80
            } else if byte == UInt8(ascii: "\\") {
                escaped = true
                let (length, failure) = escapeLength(cursor)
                if let failure { return Result(end: cursor, escaped: true, failure: failure) }
                cursor += length
            } else if byte < 0x20 {
                let failure: ParseFailure.Kind = cursor == end ? .unterminatedString : .controlCharacter
                return Result(end: cursor, escaped: escaped, failure: failure)
            }
            cursor = plainEnd(cursor)
        }
    }

    /// The length of the UTF-8 character at `cursor`, whose first byte is not ASCII; 0 if it is invalid (RFC 3629,
    /// section 4: no overlong forms, no surrogates, nothing above U+10FFFF).
    @inline(__always)
    static func characterLength(_ cursor: UnsafePointer<UInt8>) -> Int {
        let word = Word.load32(cursor)
        let lead = word & 0xFF
        if lead < 0xE0 {
            return lead >= 0xC2 && word & 0xC000 == 0x8000 ? 2 : 0
        }
        let second = (word &>> 8) & 0xFF
        if lead < 0xF0 {
            guard word & 0xC0_C000 == 0x80_8000 else { return 0 }
            if lead == 0xE0 && second < 0xA0 { return 0 }
            if lead == 0xED && second >= 0xA0 { return 0 }
            return 3
        }
        guard lead <= 0xF4, word & 0xC0C0_C000 == 0x8080_8000 else { return 0 }
        if lead == 0xF0 && second < 0x90 { return 0 }
        if lead == 0xF4 && second >= 0x90 { return 0 }
        return 4
    }

    /// Whether the text ends inside the character that begins at `cursor`.
    private static func isTruncated(_ cursor: UnsafePointer<UInt8>, end: UnsafePointer<UInt8>) -> Bool {
        let lead = cursor.pointee
        let length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead <= 0xF4 ? 4 : 0
        guard end - cursor < length else { return false }
        var next = cursor + 1
        while next < end {
            if next.pointee & 0xC0 != 0x80 { return false }
            next += 1
        }
        return true
    }

    /// The length of the escape whose backslash is at `cursor`.
    private static func escapeLength(_ cursor: UnsafePointer<UInt8>) -> (Int, ParseFailure.Kind?) {
        switch cursor[1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return (2, nil)
        case UInt8(ascii: "u"):
            guard let unit = hexadecimal(cursor + 2) else { return (0, .invalidHex) }
            if unit & 0xF800 != 0xD800 { return (6, nil) }
            guard unit < 0xDC00 else { return (0, .loneLow) }
            guard cursor[6] == UInt8(ascii: "\\"), cursor[7] == UInt8(ascii: "u") else { return (0, .loneHigh) }
            guard let low = hexadecimal(cursor + 8), low & 0xFC00 == 0xDC00 else { return (0, .loneHigh) }
            return (12, nil)
        default:
            return (0, .invalidEscape)
        }
    }

    /// The value of four hexadecimal digits; nil if a byte is not a hexadecimal digit. Reads no bytes after the first
    /// such byte.
    static func hexadecimal(_ cursor: UnsafePointer<UInt8>) -> UInt32? {
        var value: UInt32 = 0
        for index in 0..<4 {
            guard let digit = hexDigit(cursor[index]) else { return nil }
            value = value << 4 | digit
        }
        return value
    }

    @inline(__always)
    private static func hexDigit(_ byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): return UInt32(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): return UInt32(byte - UInt8(ascii: "a") + 10)
        case UInt8(ascii: "A")...UInt8(ascii: "F"): return UInt32(byte - UInt8(ascii: "A") + 10)
        default: return nil
        }
    }
}
