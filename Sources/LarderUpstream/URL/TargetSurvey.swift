/// The parts of the text after the authority of a URL, found in one pass.
struct TargetSurvey {
    /// The start of the fragment, or the end of the text.
    private(set) var end: String.Index
    /// The question mark before the query; nil if there is none.
    private(set) var query: String.Index?
    /// Whether the path can have segments that are `.` or `..`.
    private(set) var hasDotSegments = false
    /// Whether the path and the query have no byte that must be percent-encoded.
    private(set) var isValid = true

    init(_ bytes: Substring.UTF8View) throws(InvalidURL) {
        end = bytes.startIndex
        var last: UInt8 = 0
        while end < bytes.endIndex {
            let byte = bytes[end]
            if byte == UInt8(ascii: "#") { return }
            guard byte > 0x20, byte != 0x7F else { throw .control }
            if byte == UInt8(ascii: "%") {
                isValid = isValid && bytes[end...].beginsWithEscape
            } else {
                isValid = isValid && byte.isAllowedInTarget
            }
            if query == nil {
                if byte == UInt8(ascii: "?") { query = end }
                if byte == UInt8(ascii: "."), last == UInt8(ascii: "/") { hasDotSegments = true }
            }
            last = byte
            bytes.formIndex(after: &end)
        }
    }
}

extension Substring {
    /// The text with each byte that a path or a query must not contain (RFC 3986, sections 3.3 and 3.4)
    /// percent-encoded. A percent sign is encoded unless two hexadecimal digits follow it.
    var escaped: Substring {
        let digits = Array("0123456789ABCDEF".utf8)
        var result: [UInt8] = []
        var rest = utf8
        while let byte = rest.first {
            if byte.isAllowedInTarget || byte == UInt8(ascii: "%") && rest.beginsWithEscape {
                result.append(byte)
            } else {
                result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
            rest.removeFirst()
        }
        return Substring(decoding: result, as: UTF8.self)
    }

    /// The path without segments that are `.` or `..` (RFC 3986, section 5.2.4). The path must be ASCII.
    var withoutDotSegments: Substring {
        var kept: [Substring] = []
        let segments = dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            switch segment {
            case ".", "..":
                if segment == "..", !kept.isEmpty { kept.removeLast() }
                // The path of a directory ends with a slash.
                if index == segments.count - 1 { kept.append("") }
            default: kept.append(segment)
            }
        }
        return Substring("/" + kept.joined(separator: "/"))
    }
}

extension Substring.UTF8View {
    /// Whether the text begins with a percent sign and two hexadecimal digits.
    fileprivate var beginsWithEscape: Bool {
        let digits = dropFirst().prefix(2)
        return digits.count == 2 && digits.allSatisfy(\.isHexDigit)
    }
}

extension UInt8 {
    /// Whether RFC 3986 allows the byte in a path or a query outside a percent-encoded byte. The question mark is
    /// included, because a path cannot contain one.
    fileprivate var isAllowedInTarget: Bool {
        switch self {
        case UInt8(ascii: "!"), UInt8(ascii: "$"), UInt8(ascii: "="), UInt8(ascii: "?"), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        // The other delimiters, the digits and the letters.
        case UInt8(ascii: "&")...UInt8(ascii: ";"), UInt8(ascii: "@")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: false
        }
    }
}
