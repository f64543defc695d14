import LarderJSON

/// Converts a path to the form in which the index of a snapshot file stores it: for each name, the byte 0xFF followed
/// by the name in UTF-8.
enum PathKey {
    /// Calls `body` with the key of a path. The path is empty for the whole document, a JSON Pointer (RFC 6901) if it
    /// begins with `/`, else names separated by dots. If the path is malformed (an empty name between dots, or an
    /// invalid escape), `body` gets nil.
    @inline(__always)
    static func with<R>(_ path: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer?) throws -> R) rethrows -> R {
        try withUnsafeTemporaryAllocation(of: UInt8.self, capacity: path.count + 1) { key in
            let count = path.first == UInt8(ascii: "/") ? pointer(path, key) : dotted(path, key)
            return try body(count.map { UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(key)[..<$0]) })
        }
    }

    /// Calls `body` with the key of the path that consists of the given names.
    @inline(__always)
    static func with<R>(_ names: [String], _ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        let capacity = names.reduce(0) { $0 + 1 + $1.utf8.count }
        return try withUnsafeTemporaryAllocation(of: UInt8.self, capacity: capacity) { key in
            var count = 0
            for name in names {
                key[count] = SnapshotFileLayout.separator
                count += 1
                for byte in name.utf8 {
                    key[count] = byte
                    count += 1
                }
            }
            return try body(UnsafeRawBufferPointer(key))
        }
    }

    private static func dotted(_ path: UnsafeRawBufferPointer, _ key: UnsafeMutableBufferPointer<UInt8>) -> Int? {
        if path.isEmpty { return 0 }
        key[0] = SnapshotFileLayout.separator
        var nameStart = 0
        for (index, byte) in path.enumerated() {
            if byte == UInt8(ascii: ".") {
                if index == nameStart { return nil }
                nameStart = index + 1
                key[index + 1] = SnapshotFileLayout.separator
            } else {
                key[index + 1] = byte
            }
        }
        return nameStart == path.count ? nil : path.count + 1
    }

    private static func pointer(_ path: UnsafeRawBufferPointer, _ key: UnsafeMutableBufferPointer<UInt8>) -> Int? {
        var count = 0
        var isEscaped = false
        for byte in path {
            switch byte {
            case UInt8(ascii: "0") where isEscaped: key[count] = UInt8(ascii: "~")
            case UInt8(ascii: "1") where isEscaped: key[count] = UInt8(ascii: "/")
            case _ where isEscaped: return nil
            case UInt8(ascii: "~"):
                isEscaped = true
                continue
            case UInt8(ascii: "/"): key[count] = SnapshotFileLayout.separator
            default: key[count] = byte
            }
            isEscaped = false
            count += 1
        }
        return isEscaped ? nil : count
    }
}

/// Parses scalars from their JSON text.
package enum ScalarText {
    package static func bool(_ text: UnsafeRawBufferPointer) -> Bool? {
        if text.elementsEqual("true".utf8) { return true }
        return text.elementsEqual("false".utf8) ? false : nil
    }

    /// Parses a number and rounds it to the nearest `Double`. Returns nil if the text is not a number or is out of
    /// range.
    package static func double(_ text: UnsafeRawBufferPointer) -> Double? {
        // Swift's `Double` also parses "nan" and hexadecimal digits, which are not numbers in JSON.
        guard let first = text.first, first == UInt8(ascii: "-") || first &- UInt8(ascii: "0") < 10,
            !text.contains(where: { $0 | 0x20 == UInt8(ascii: "x") || $0 | 0x20 == UInt8(ascii: "n") }),
            let value = Double(String(decoding: text, as: UTF8.self)), value.isFinite
        else { return nil }
        return value
    }

    /// Returns whether the text is a JSON string equal to `expected`.
    static func equals(_ text: UnsafeRawBufferPointer, _ expected: String) -> Bool {
        guard text.count >= 2, text.first == UInt8(ascii: "\""), text.last == UInt8(ascii: "\"") else { return false }
        let content = text[1..<(text.count - 1)]
        if content.contains(UInt8(ascii: "\\")) { return string(text)?.utf8.elementsEqual(expected.utf8) ?? false }
        return content.elementsEqual(expected.utf8)
    }

    /// Returns the content of a JSON string, with escapes resolved; nil if the text is not a string.
    package static func string(_ text: UnsafeRawBufferPointer) -> String? {
        guard text.count >= 2, text.first == UInt8(ascii: "\""), text.last == UInt8(ascii: "\"") else { return nil }
        let content = text[1..<(text.count - 1)]
        if !content.contains(UInt8(ascii: "\\")) {
            return String(validating: UnsafeRawBufferPointer(rebasing: content), as: UTF8.self)
        }
        return (try? JSONValue(parsing: [UInt8](text)))?.string
    }
}
