/// Finds the end of a number (RFC 8259, section 6).
enum NumberScanner {
    @inline(__always)
    static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }

    /// The first byte at or after `start` that is not a digit.
    @inline(__always)
    static func digitsEnd(_ start: UnsafePointer<UInt8>) -> UnsafePointer<UInt8> {
        var cursor = start
        while isDigit(cursor.pointee) { cursor += 1 }
        return cursor
    }

    /// Scans the number at `start`. The caller has checked that its first byte is a digit or a minus sign. Returns the
    /// position after the number, or the position and kind of the error.
    @inline(__always)
    static func end(_ start: UnsafePointer<UInt8>) -> (end: UnsafePointer<UInt8>, failure: ParseFailure.Kind?) {
        var cursor = start
        if cursor.pointee == UInt8(ascii: "-") {
            cursor += 1
            guard isDigit(cursor.pointee) else { return (cursor, .missingDigit) }
        }
        let first = cursor.pointee
        cursor += 1
        if isDigit(cursor.pointee) {
            if first == UInt8(ascii: "0") { return (cursor - 1, .leadingZero) }
            cursor = digitsEnd(cursor + 1)
        }
        if cursor.pointee == UInt8(ascii: ".") {
            cursor += 1
            guard isDigit(cursor.pointee) else { return (cursor, .missingFraction) }
            cursor = digitsEnd(cursor + 1)
        }
        if cursor.pointee | 0x20 == UInt8(ascii: "e") {
            cursor += 1
            if cursor.pointee == UInt8(ascii: "+") || cursor.pointee == UInt8(ascii: "-") { cursor += 1 }
            guard isDigit(cursor.pointee) else { return (cursor, .missingExponent) }
            cursor = digitsEnd(cursor + 1)
        }
        return (cursor, nil)
    }
}
