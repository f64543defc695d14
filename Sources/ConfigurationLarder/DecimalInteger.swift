/// Reads integers from the text of JSON numbers.
enum DecimalInteger {
    /// Returns the number if its value is an integer that fits into `Int`, however it is written: `10`, `10.0` and
    /// `1e1` are the same integer. Returns nil otherwise.
    ///
    /// The digits are evaluated exactly, because a `Double` does not represent every `Int`.
    /// - Parameter text: a number in the syntax of JSON
    static func value(of text: UnsafeRawBufferPointer) -> Int? {
        var (value, isNegative, isFraction) = (0, false, false)
        // Zeros are counted and multiplied in only when a digit follows, so that trailing zeros cannot overflow.
        var (zeros, fractionDigits, exponent) = (0, 0, 0)
        for (index, byte) in text.enumerated() {
            switch byte {
            case UInt8(ascii: "-"): isNegative = true
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                exponent = Self.exponent(of: text[(index + 1)...])
                return scaled(value, byPowerOfTen: zeros + exponent - fractionDigits)
            default:
                if isFraction { fractionDigits += 1 }
                if byte == UInt8(ascii: "0") {
                    if value != 0 { zeros += 1 }
                    continue
                }
                guard let scaled = scaled(value, byPowerOfTen: zeros + 1) else { return nil }
                let digit = Int(byte &- UInt8(ascii: "0"))
                let (sum, overflows) =
                    isNegative
                    ? scaled.subtractingReportingOverflow(digit) : scaled.addingReportingOverflow(digit)
                if overflows { return nil }
                (value, zeros) = (sum, 0)
            }
        }
        return scaled(value, byPowerOfTen: zeros - fractionDigits)
    }

    /// Returns the exponent, limited to a magnitude at which every number but 0 is out of range.
    private static func exponent(of text: Slice<UnsafeRawBufferPointer>) -> Int {
        var result = 0
        for byte in text {
            let digit = byte &- UInt8(ascii: "0")
            if digit < 10, result < 1 << 40 { result = result * 10 + Int(digit) }
        }
        return text.first == UInt8(ascii: "-") ? -result : result
    }

    private static func scaled(_ value: Int, byPowerOfTen power: Int) -> Int? {
        if value == 0 { return 0 }
        guard 0...18 ~= power else { return nil }
        var result = value
        for _ in 0..<power {
            let (product, overflows) = result.multipliedReportingOverflow(by: 10)
            if overflows { return nil }
            result = product
        }
        return result
    }
}
