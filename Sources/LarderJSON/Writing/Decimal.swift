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
