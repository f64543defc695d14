extension StringProtocol {
    /// Resolves percent-encoded bytes (RFC 3986, section 2.1).
    /// - Returns: the bytes, and whether each percent sign is followed by two hexadecimal digits. Other percent signs are
    ///   kept.
    package func percentDecoded() -> (bytes: [UInt8], isValid: Bool) {
        var (bytes, isValid) = ([UInt8](), true)
        var rest = Array(utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            // Initializers of integers would also accept a sign.
            let digits = rest.prefix(2).compactMap(HexDigit.anyCase)
            if digits.count == 2 {
                bytes.append(digits[0] << 4 | digits[1])
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
                isValid = false
            }
        }
        return (bytes, isValid)
    }
}

extension HexDigit {
    /// The value of an ASCII digit in lower or upper case; nil for other bytes.
    fileprivate static func anyCase(_ digit: UInt8) -> UInt8? {
        (UInt8(ascii: "A")...UInt8(ascii: "F")).contains(digit) ? digit - UInt8(ascii: "A") + 10 : value(digit)
    }
}
