/// The rules of RFC 5892 and RFC 5893 for the labels of internationalized host names.
///
/// Scripts, directions and joining types are approximated by ranges of code points, because the standard library does
/// not know them.
enum InternationalLabel {
    static func isValid(_ label: [Unicode.Scalar]) -> Bool {
        guard let first = label.first, first != "-", label.last != "-", !isMark(first) else { return false }
        if label.count >= 4, label[2] == "-", label[3] == "-" { return false }
        return label.indices.allSatisfy { isAllowed(label[$0]) || isAllowedInContext(label, $0) }
            && !(label.contains(where: isArabicIndicDigit) && label.contains(where: isExtendedArabicIndicDigit))
    }

    private static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x2d, 0x30...0x39, 0x41...0x5a, 0x61...0x7a: return true
        case 0xdf, 0x3c2, 0x6fd, 0x6fe, 0xf0b, 0x3007: return true
        case ..<0x80, 0x640, 0x7fa, 0x302e, 0x302f, 0x3031...0x3035, 0x303b: return false
        // Hangul letters (jamo) that are combined into syllables.
        case 0x1100...0x11ff, 0xa960...0xa97f, 0xd7b0...0xd7ff: return false
        default: break
        }
        let properties = scalar.properties
        if properties.isDefaultIgnorableCodePoint || properties.changesWhenLowercased { return false }
        switch properties.generalCategory {
        case .lowercaseLetter, .uppercaseLetter, .otherLetter, .modifierLetter, .decimalNumber, .nonspacingMark,
            .spacingMark:
            return true
        default: return false
        }
    }

    private static func isAllowedInContext(_ label: [Unicode.Scalar], _ index: Int) -> Bool {
        let before = index > 0 ? label[index - 1] : nil
        let after = index + 1 < label.count ? label[index + 1] : nil
        switch label[index].value {
        case 0xb7: return before == "l" && after == "l"
        case 0x375: return after.map(isGreek) ?? false
        case 0x5f3, 0x5f4: return before.map(isHebrew) ?? false
        case 0x30fb: return label.contains(where: isJapanese)
        case 0x200c:
            let isJoined = before.map(joinsNext) ?? false && after.map(isArabic) ?? false
            return isJoined || before.map(isVirama) ?? false
        case 0x200d: return before.map(isVirama) ?? false
        default: return false
        }
    }

    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark: true
        default: false
        }
    }

    private static func isVirama(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.canonicalCombiningClass == .virama
    }

    private static func isGreek(_ scalar: Unicode.Scalar) -> Bool {
        (0x370...0x3ff).contains(scalar.value) || (0x1f00...0x1fff).contains(scalar.value)
    }

    private static func isHebrew(_ scalar: Unicode.Scalar) -> Bool {
        (0x591...0x5f2).contains(scalar.value) || (0xfb1d...0xfb4f).contains(scalar.value)
    }

    private static func isJapanese(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x30fb: false
        case 0x3041...0x309f, 0x30a1...0x30ff: true
        default: scalar.properties.isIdeographic
        }
    }

    private static func isArabic(_ scalar: Unicode.Scalar) -> Bool {
        (0x620...0x74f).contains(scalar.value) && scalar.properties.generalCategory == .otherLetter
    }

    /// Whether a code point is an Arabic letter that is joined to the letter after it.
    private static func joinsNext(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x621...0x625, 0x627, 0x629, 0x62f...0x632, 0x648, 0x671...0x677, 0x688...0x699, 0x6c0...0x6cb: false
        default: isArabic(scalar)
        }
    }

    private static func isArabicIndicDigit(_ scalar: Unicode.Scalar) -> Bool { (0x660...0x669).contains(scalar.value) }

    private static func isExtendedArabicIndicDigit(_ scalar: Unicode.Scalar) -> Bool {
        (0x6f0...0x6f9).contains(scalar.value)
    }
}

extension InternationalLabel {
    /// Whether a code point has the bidirectional class R or AL (right-to-left), or is an Arabic-Indic digit.
    static func isRightToLeft(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.properties.generalCategory == .nonspacingMark || isExtendedArabicIndicDigit(scalar) { return false }
        switch scalar.value {
        case 0x590...0x8ff, 0xfb1d...0xfdff, 0xfe70...0xfeff, 0x10800...0x10fff, 0x1e800...0x1efff: return true
        default: return false
        }
    }

    /// Whether a label satisfies the Bidi rule (RFC 5893, section 2), which applies to all labels of a name if one is
    /// right-to-left.
    static func followsBidiRule(_ label: [Unicode.Scalar]) -> Bool {
        guard let first = label.first, !isDigit(first),
            let last = label.last(where: { $0.properties.generalCategory != .nonspacingMark })
        else { return false }
        let hasRightToLeft = label.contains(where: isRightToLeft)
        guard isRightToLeft(first) else { return !hasRightToLeft && last != "-" }
        let hasLeftToRight = label.contains {
            $0.properties.isAlphabetic && !isRightToLeft($0) && $0.properties.generalCategory != .nonspacingMark
        }
        let hasBothDigits = label.contains(where: isArabicIndicDigit) && label.contains { isEuropeanDigit($0) }
        return !hasLeftToRight && !hasBothDigits && (isRightToLeft(last) || isDigit(last))
    }

    private static func isEuropeanDigit(_ scalar: Unicode.Scalar) -> Bool {
        ("0"..."9").contains(scalar) || isExtendedArabicIndicDigit(scalar)
    }

    private static func isDigit(_ scalar: Unicode.Scalar) -> Bool {
        isEuropeanDigit(scalar) || isArabicIndicDigit(scalar)
    }
}
