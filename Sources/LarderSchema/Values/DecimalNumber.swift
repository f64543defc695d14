/// A JSON number with its exact decimal value: `±significand × 10^exponent`.
///
/// The significand has no trailing zeros, so equal numbers have equal properties. Numbers with up to 19 significant
/// digits need no allocation. For longer numbers the other digits are stored in an array.
struct DecimalNumber: Sendable, Hashable {
    private(set) var isNegative: Bool
    /// The significand if it has at most 19 digits, otherwise its first 19 digits.
    private var head: UInt64
    /// The digits of the significand after the first 19, as ASCII; empty for most numbers.
    private var tail: [UInt8]
    private var exponent: Int
    /// The number of digits of the significand; 0 for zero.
    private var digitCount: Int

    private static let headDigits = 19
    /// The maximum number of significant digits of the value of `multipleOf`.
    static let maxDivisorDigits = headDigits
    /// Exponents are limited to this magnitude, so that computing with them cannot overflow. A text of less than 4 GiB
    /// can exceed the limit only with an explicit exponent, such as `1e9999999999999999999`.
    private static let maxExponent = 1 << 60

    /// Reads the text of a valid JSON number.
    init(_ text: UnsafeBufferPointer<UInt8>) {
        var index = 0
        let negative = text[0] == UInt8(ascii: "-")
        if negative { index = 1 }
        isNegative = negative
        head = 0
        tail = []
        exponent = 0
        digitCount = 0
        // Zeros are added only when a nonzero digit follows, so that trailing zeros are dropped.
        var zeros = 0
        var isFraction = false
        while index < text.count {
            let byte = text[index]
            let digit = byte &- 0x30
            if digit < 10 {
                if isFraction { exponent -= 1 }
                if digit == 0 {
                    if digitCount > 0 { zeros += 1 }
                } else {
                    while zeros > 0 {
                        append(0)
                        zeros -= 1
                    }
                    append(digit)
                }
            } else if byte == UInt8(ascii: ".") {
                isFraction = true
            } else {
                break
            }
            index += 1
        }
        if digitCount == 0 {
            isNegative = false
            exponent = 0
            return
        }
        exponent += zeros
        if index < text.count { exponent += Self.exponent(text[(index + 1)...]) }
        exponent = min(max(exponent, -Self.maxExponent), Self.maxExponent)
    }

    private mutating func append(_ digit: UInt8) {
        if digitCount < Self.headDigits {
            head = head &* 10 &+ UInt64(digit)
        } else {
            tail.append(digit | 0x30)
        }
        digitCount += 1
    }

    /// Returns the value of the text after `e` or `E`, limited so that further digits cannot overflow.
    private static func exponent(_ text: Slice<UnsafeBufferPointer<UInt8>>) -> Int {
        var negative = false
        var result = 0
        for byte in text {
            if byte == UInt8(ascii: "-") { negative = true }
            let digit = byte &- 0x30
            if digit < 10, result < maxExponent / 16 { result = result * 10 + Int(digit) }
        }
        return negative ? -result : result
    }

    var isZero: Bool { digitCount == 0 }
    var isInteger: Bool { exponent >= 0 }

    /// The number if it is an integer that fits in `Int`, otherwise nil.
    var int: Int? {
        guard !isZero else { return 0 }
        guard exponent >= 0, exponent < 19, tail.isEmpty else { return nil }
        var result = head
        for _ in 0..<exponent {
            let (product, overflow) = result.multipliedReportingOverflow(by: 10)
            if overflow { return nil }
            result = product
        }
        guard result <= UInt64(Int.max) else { return nil }
        return isNegative ? -Int(result) : Int(result)
    }

    static func < (left: DecimalNumber, right: DecimalNumber) -> Bool {
        if left.isNegative != right.isNegative { return left.isNegative }
        return left.isNegative ? right.hasSmallerMagnitude(than: left) : left.hasSmallerMagnitude(than: right)
    }

    private func hasSmallerMagnitude(than other: DecimalNumber) -> Bool {
        if isZero || other.isZero { return isZero && !other.isZero }
        let (magnitude, otherMagnitude) = (exponent + digitCount, other.exponent + other.digitCount)
        if magnitude != otherMagnitude { return magnitude < otherMagnitude }
        let (aligned, otherAligned) = (alignedHead, other.alignedHead)
        if aligned != otherAligned { return aligned < otherAligned }
        return tail.lexicographicallyPrecedes(other.tail)
    }

    /// The first 19 digits of the significand. Shorter ones are extended with zeros at the end.
    private var alignedHead: UInt64 {
        var result = head
        for _ in 0..<max(0, Self.headDigits - digitCount) { result &*= 10 }
        return result
    }

    /// Whether the number is a divisor that ``isMultiple(of:)`` supports: positive, with at most 19 significant digits.
    var isDivisor: Bool { !isNegative && !isZero && tail.isEmpty }

    /// Whether the number is an integer times `divisor`. ``isDivisor`` must be true for `divisor`.
    func isMultiple(of divisor: DecimalNumber) -> Bool {
        if isZero { return true }
        // A multiple cannot have a smaller exponent than the divisor: its significand would end in a zero, but trailing
        // zeros are dropped.
        var scale = exponent - divisor.exponent
        guard scale >= 0 else { return false }
        let modulus = divisor.head
        var remainder = head % modulus
        for digit in tail {
            remainder = Self.product(remainder, 10 % modulus, modulus)
            let (sum, overflow) = remainder.addingReportingOverflow(UInt64(digit & 15) % modulus)
            remainder = overflow || sum >= modulus ? sum &- modulus : sum
        }
        var power = 10 % modulus
        while scale > 0, remainder > 0 {
            if scale & 1 == 1 { remainder = Self.product(remainder, power, modulus) }
            power = Self.product(power, power, modulus)
            scale >>= 1
        }
        return remainder == 0
    }

    /// `left × right mod modulus`, for factors below the modulus.
    private static func product(_ left: UInt64, _ right: UInt64, _ modulus: UInt64) -> UInt64 {
        modulus.dividingFullWidth(left.multipliedFullWidth(by: right)).remainder
    }

    /// The value of an integer of up to 18 characters without fraction and exponent, as most numbers are; nil for
    /// others.
    @inline(__always)
    static func shortInteger(_ text: UnsafeBufferPointer<UInt8>) -> Int? {
        guard text.count <= 18 else { return nil }
        var index = 0
        let negative = text[0] == UInt8(ascii: "-")
        if negative { index = 1 }
        var result = 0
        while index < text.count {
            let digit = text[index] &- 0x30
            guard digit < 10 else { return nil }
            result = result &* 10 &+ Int(digit)
            index &+= 1
        }
        return negative ? 0 &- result : result
    }
}
