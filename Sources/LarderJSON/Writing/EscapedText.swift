/// Escapes text for a JSON string. Only the characters for which JSON requires an escape are escaped: the quotation
/// mark, the backslash and control characters. The short escape is used if there is one.
enum EscapedText {
    /// The maximum number of bytes that one byte of text takes when it is escaped.
    static let growth = 6

    /// Writes `text` and returns the number of bytes written. `output` must have room for `growth` times the size of
    /// the text.
    static func write(_ text: UnsafeRawBufferPointer, into output: UnsafeMutablePointer<UInt8>) -> Int {
        var cursor = output
        for byte in text {
            if PlainText.isEscaped(byte) {
                cursor += escape(byte, cursor)
            } else {
                cursor.pointee = byte
                cursor += 1
            }
        }
        return cursor - output
    }

    private static func escape(_ byte: UInt8, _ output: UnsafeMutablePointer<UInt8>) -> Int {
        output[0] = UInt8(ascii: "\\")
        switch byte {
        case 0x08: output[1] = UInt8(ascii: "b")
        case 0x09: output[1] = UInt8(ascii: "t")
        case 0x0A: output[1] = UInt8(ascii: "n")
        case 0x0C: output[1] = UInt8(ascii: "f")
        case 0x0D: output[1] = UInt8(ascii: "r")
        case 0..<0x20:
            output[1] = UInt8(ascii: "u")
            output[2] = UInt8(ascii: "0")
            output[3] = UInt8(ascii: "0")
            output[4] = UInt8(ascii: "0") + byte >> 4
            output[5] = byte & 0xF < 10 ? UInt8(ascii: "0") + byte & 0xF : UInt8(ascii: "a") + byte & 0xF - 10
            return 6
        default: output[1] = byte
        }
        return 2
    }
}
