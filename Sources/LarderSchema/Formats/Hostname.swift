/// Host names (RFC 1123) and internationalized host names (RFC 5890).
enum Hostname {
    private static let maxLabel = 63
    private static let maxName = 253

    /// Whether a text is an ASCII host name. Labels that begin with `xn--` must be valid A-labels.
    static func isValid(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard (1...maxName).contains(text.count) else { return false }
        let labels = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        var hasEncodedLabel = false
        for label in labels {
            guard isASCIILabel(label) else { return false }
            hasEncodedLabel = hasEncodedLabel || isEncoded(label)
        }
        guard hasEncodedLabel else { return true }
        return areValid(labels.map { $0.map { Unicode.Scalar($0) } })
    }

    /// Whether a text in UTF-8 is a host name whose labels may be U-labels.
    static func isValidInternational(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        // The ideographic, the fullwidth and the halfwidth ideographic full stop separate labels too.
        let separators: [Unicode.Scalar] = [".", "\u{3002}", "\u{ff0e}", "\u{ff61}"]
        let scalars = Array(String(decoding: text, as: UTF8.self).unicodeScalars)
        let labels = scalars.split(omittingEmptySubsequences: false) { separators.contains($0) }.map(Array.init)
        return areValid(labels)
    }

    private static func isASCIILabel(_ label: some BidirectionalCollection<UInt8>) -> Bool {
        let hyphen = UInt8(ascii: "-")
        return (1...maxLabel).contains(label.count) && label.first != hyphen && label.last != hyphen
            && label.allSatisfy { FormatReader.isLetter($0) || FormatReader.isDigit($0) || $0 == hyphen }
    }

    private static func isEncoded(_ label: some Collection<UInt8>) -> Bool {
        label.count >= 4 && zip(label, "xn--".utf8).allSatisfy { $0 | 0x20 == $1 | 0x20 }
    }

    private static func areValid(_ labels: [[Unicode.Scalar]]) -> Bool {
        var size = labels.count - 1
        var decoded: [[Unicode.Scalar]] = []
        for label in labels {
            guard let (scalars, count) = decode(label) else { return false }
            size += count
            decoded.append(scalars)
        }
        guard size <= maxName else { return false }
        let isBidirectional = decoded.contains { $0.contains(where: InternationalLabel.isRightToLeft) }
        return !isBidirectional || decoded.allSatisfy(InternationalLabel.followsBidiRule)
    }

    /// Returns the label with Punycode decoded, and its length with Punycode encoded; nil if the label is invalid.
    private static func decode(_ label: [Unicode.Scalar]) -> (scalars: [Unicode.Scalar], count: Int)? {
        let bytes = label.map { $0.isASCII ? UInt8($0.value) : 0 }
        if !bytes.contains(0) {
            guard isASCIILabel(bytes) else { return nil }
            guard isEncoded(bytes) else {
                let hasTwoHyphens = label.count >= 4 && label[2] == "-" && label[3] == "-"
                return hasTwoHyphens ? nil : (label, label.count)
            }
            guard let scalars = Punycode.decode(bytes[4...]), InternationalLabel.isValid(scalars),
                scalars.contains(where: { !$0.isASCII }),
                Punycode.encode(scalars)?.elementsEqual(bytes[4...].map { FormatReader.isLetter($0) ? $0 | 0x20 : $0 })
                    == true
            else { return nil }
            return (scalars, label.count)
        }
        // Each code point needs a character of the encoded label. Longer labels are rejected first, because the rules of
        // some code points search the whole label.
        guard label.count <= maxLabel, InternationalLabel.isValid(label), let encoded = Punycode.encode(label),
            encoded.count + 4 <= maxLabel
        else { return nil }
        return (label, encoded.count + 4)
    }
}

/// RFC 3492.
enum Punycode {
    private static let base: UInt32 = 36

    static func decode(_ text: some BidirectionalCollection<UInt8>) -> [Unicode.Scalar]? {
        var output: [Unicode.Scalar] = []
        var rest = text[...]
        if let hyphen = text.lastIndex(of: UInt8(ascii: "-")) {
            output = text[..<hyphen].map { Unicode.Scalar($0) }
            rest = text[text.index(after: hyphen)...]
        }
        var (code, index, bias): (UInt32, UInt32, UInt32) = (128, 0, 72)
        while !rest.isEmpty {
            let old = index
            var (weight, k): (UInt32, UInt32) = (1, base)
            while true {
                guard let digit = rest.popFirst().flatMap(value) else { return nil }
                let (product, overflow) = digit.multipliedReportingOverflow(by: weight)
                let (sum, overflow2) = index.addingReportingOverflow(product)
                if overflow || overflow2 { return nil }
                index = sum
                let threshold = threshold(k, bias)
                if digit < threshold { break }
                let (next, overflow3) = weight.multipliedReportingOverflow(by: base - threshold)
                if overflow3 { return nil }
                weight = next
                k += base
            }
            let count = UInt32(output.count + 1)
            bias = adapt(index - old, count, isFirst: old == 0)
            let (next, overflow) = code.addingReportingOverflow(index / count)
            guard !overflow, let scalar = Unicode.Scalar(next) else { return nil }
            code = next
            output.insert(scalar, at: Int(index % count))
            index = index % count + 1
        }
        return output
    }

    /// - Returns: nil if a label would be longer than 63 characters. Each code point needs at least one of them, so
    ///   longer texts are rejected at once.
    static func encode(_ scalars: [Unicode.Scalar]) -> [UInt8]? {
        guard scalars.count <= 63 else { return nil }
        var output = scalars.filter(\.isASCII).map { UInt8($0.value) }
        var handled = UInt32(output.count)
        let basic = handled
        if basic > 0 { output.append(UInt8(ascii: "-")) }
        var (code, delta, bias): (UInt32, UInt32, UInt32) = (128, 0, 72)
        while handled < scalars.count {
            guard let next = scalars.lazy.map(\.value).filter({ $0 >= code }).min() else { return nil }
            delta += (next - code) * (handled + 1)
            code = next
            for scalar in scalars.map(\.value) {
                if scalar < code { delta += 1 }
                guard scalar == code else { continue }
                var (q, k) = (delta, base)
                while true {
                    let threshold = threshold(k, bias)
                    if q < threshold { break }
                    output.append(digit(threshold + (q - threshold) % (base - threshold)))
                    q = (q - threshold) / (base - threshold)
                    k += base
                }
                output.append(digit(q))
                bias = adapt(delta, handled + 1, isFirst: handled == basic)
                delta = 0
                handled += 1
            }
            delta += 1
            code += 1
        }
        return output
    }

    private static func threshold(_ k: UInt32, _ bias: UInt32) -> UInt32 { k <= bias ? 1 : min(k - bias, 26) }

    private static func adapt(_ delta: UInt32, _ count: UInt32, isFirst: Bool) -> UInt32 {
        var delta = isFirst ? delta / 700 : delta / 2
        delta += delta / count
        var k: UInt32 = 0
        while delta > 455 {
            delta /= 35
            k += base
        }
        return k + 36 * delta / (delta + 38)
    }

    private static func value(_ byte: UInt8) -> UInt32? {
        if FormatReader.isDigit(byte) { return UInt32(byte) - 0x30 + 26 }
        return FormatReader.isLetter(byte) ? UInt32(byte | 0x20) - 0x61 : nil
    }

    private static func digit(_ value: UInt32) -> UInt8 { UInt8(value < 26 ? value + 0x61 : value - 26 + 0x30) }
}
