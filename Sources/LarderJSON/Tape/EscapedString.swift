/// Decodes the content of a string with escapes. The text, without its quotation marks, has been validated by the
/// parser.
enum EscapedString {
    /// Calls `body` with the decoded string in UTF-8.
    static func withDecoded<R>(
        _ text: UnsafeBufferPointer<UInt8>, _ body: (UnsafeRawBufferPointer) -> R
    ) -> R {
        // An escape is never shorter than the character that it encodes, so a buffer of the size of the text suffices.
        // Swift allocates a short buffer on the stack.
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: text.count) { buffer in
            let count = decode(text, into: buffer)
            return body(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]))
        }
    }

    /// Whether the decoded string equals `bytes`.
    @inline(never)
    static func equals(_ text: UnsafeBufferPointer<UInt8>, _ bytes: UnsafeRawBufferPointer) -> Bool {
        // The text contains an escape, so it is longer than the decoded string, but at most six times as long.
        guard bytes.count < text.count, text.count <= 6 * bytes.count else { return false }
        return withDecoded(text) { $0.elementsEqual(bytes) }
    }

    /// The ``NameHash`` of the decoded string.
    @inline(never)
    static func nameHash(_ start: UnsafePointer<UInt8>, _ count: Int) -> UInt32 {
        withDecoded(UnsafeBufferPointer(start: start, count: count)) { NameHash.exact($0) }
    }

    /// Writes the decoded string and returns its length. `output` must have room for `text.count` bytes.
    private static func decode(
        _ text: UnsafeBufferPointer<UInt8>, into output: UnsafeMutableBufferPointer<UInt8>
    ) -> Int {
        var source = 0
        var target = 0
        while source < text.count {
            var unit = next(text, &source)
            for _ in 0..<unit.count {
                output[target] = UInt8(truncatingIfNeeded: unit.bytes)
                unit.bytes >>= 8
                target += 1
            }
        }
        return target
    }

    /// Decodes the byte or escape at `source` to UTF-8. The first byte is in the lowest bits of the result.
    @inline(__always)
    private static func next(
        _ text: UnsafeBufferPointer<UInt8>, _ source: inout Int
    ) -> (bytes: UInt32, count: Int) {
        let byte = text[source]
        source += 1
        guard byte == UInt8(ascii: "\\"), source < text.count else { return (UInt32(byte), 1) }
        let letter = text[source]
        source += 1
        switch letter {
        case UInt8(ascii: "b"): return (0x08, 1)
        case UInt8(ascii: "f"): return (0x0C, 1)
        case UInt8(ascii: "n"): return (0x0A, 1)
        case UInt8(ascii: "r"): return (0x0D, 1)
        case UInt8(ascii: "t"): return (0x09, 1)
        case UInt8(ascii: "u"):
            var scalar = codeUnit(text, source)
            source += 4
            if scalar & 0xFC00 == 0xD800 {
                scalar = 0x10000 + (scalar & 0x3FF) << 10 + codeUnit(text, source + 2) & 0x3FF
                source += 6
            }
            return utf8(scalar)
        default: return (UInt32(letter), 1)
        }
    }

    private static func codeUnit(_ text: UnsafeBufferPointer<UInt8>, _ index: Int) -> UInt32 {
        guard index + 4 <= text.count, let base = text.baseAddress else { return 0xFFFD }
        return StringScanner.hexadecimal(base + index) ?? 0xFFFD
    }

    private static func utf8(_ scalar: UInt32) -> (bytes: UInt32, count: Int) {
        let last = 0x80 | scalar & 0x3F
        let second = 0x80 | scalar >> 6 & 0x3F
        switch scalar {
        case ..<0x80: return (scalar, 1)
        case ..<0x800: return (0xC0 | scalar >> 6 | last << 8, 2)
        case ..<0x10000: return (0xE0 | scalar >> 12 | second << 8 | last << 16, 3)
        default: return (0xF0 | scalar >> 18 | (0x80 | scalar >> 12 & 0x3F) << 8 | second << 16 | last << 24, 4)
        }
    }
}
