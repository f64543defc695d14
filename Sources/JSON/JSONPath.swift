/// A way from a document to a value in it: member names and, in arrays, indexes.
public struct JSONPath: Sendable, Hashable, CustomStringConvertible {
    /// The steps, in order; none means the whole document.
    public let segments: [String]

    /// A path of these steps.
    public init(_ segments: [String]) {
        self.segments = segments
    }

    /// Reads a path as people write it: empty for the whole document, an RFC 6901 pointer if it begins with `/`, else
    /// names with dots between them (`search.limit`, `servers.0`).
    ///
    /// - Throws: `JSONError` (`invalidPath`) for an empty name between dots, or a `~` in a pointer that is neither `~0`
    ///   nor `~1`; the offset counts UTF-8 bytes.
    public init(parsing text: String) throws(JSONError) { try self.init(parsing: text, maximumSegments: .max) }

    private init(parsing text: String, maximumSegments: Int) throws(JSONError) {
        if text.isEmpty {
            segments = []
        } else if text.utf8.first == UInt8(ascii: "/") {
            segments = try JSONPath.pointerSegments(text, maximumSegments)
        } else {
            segments = try JSONPath.dottedSegments(text, maximumSegments)
        }
    }

    /// Reads a path that came as JSON: a string, as `init(parsing:)` takes it, or an array of member names.
    ///
    /// - Parameter maximumSegments: a path of more is refused, before more is made of it.
    /// - Throws: `JSONError`: `invalidPath` as `init(parsing:)`, `typeMismatch` for any other value.
    public init(_ value: JSONValue, maximumSegments: Int = .max) throws(JSONError) {
        if let text = value.string {
            try self.init(parsing: text, maximumSegments: maximumSegments)
            return
        }
        guard value.kind == .array else {
            throw JSONError(
                .typeMismatch, at: 0, "a path is a string or an array of member names, not \(value.kind.article)")
        }
        var segments: [String] = []
        for element in value.elements {
            if segments.count == maximumSegments { throw Self.tooManySegments(maximumSegments, at: 0) }
            guard let name = element.string else {
                throw JSONError(
                    .typeMismatch, at: 0,
                    "a path's element \(segments.count) must be a string, not \(element.kind.article)")
            }
            segments.append(name)
        }
        self.init(segments)
    }

    /// The path as an RFC 6901 pointer.
    public var pointer: String {
        var pointer = ""
        for segment in segments {
            pointer.unicodeScalars.append("/")
            for scalar in segment.unicodeScalars {
                switch scalar {
                case "~": pointer.unicodeScalars.append(contentsOf: "~0".unicodeScalars)
                case "/": pointer.unicodeScalars.append(contentsOf: "~1".unicodeScalars)
                default: pointer.unicodeScalars.append(scalar)
                }
            }
        }
        return pointer
    }

    /// The dotted form where every name allows it, else the pointer. `init(parsing:)` reads it back as the same path.
    public var description: String {
        let isDotted =
            segments.allSatisfy { !$0.isEmpty && !$0.utf8.contains(UInt8(ascii: ".")) }
            && segments.first?.utf8.first != UInt8(ascii: "/")
        return isDotted ? segments.joined(separator: ".") : pointer
    }

    /// Whether two paths have the same steps, compared as names are: by their UTF-8, without normalisation.
    public static func == (left: JSONPath, right: JSONPath) -> Bool {
        left.segments.count == right.segments.count
            && zip(left.segments, right.segments).allSatisfy { $0.isSpelled(as: $1) }
    }

    /// So much of the beginning and the end of a name tells it from others: a name may have a megabyte.
    private static let tellingBytes = 2048

    /// Feeds the steps' UTF-8 to `hasher`; of a very long step its two ends and its length.
    public func hash(into hasher: inout Hasher) {
        for segment in segments {
            var segment = segment
            segment.withUTF8 { name in
                let bytes = UnsafeRawBufferPointer(name)
                if bytes.count <= 2 * Self.tellingBytes {
                    hasher.combine(bytes: bytes)
                } else {
                    hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: bytes.prefix(Self.tellingBytes)))
                    hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: bytes.suffix(Self.tellingBytes)))
                    hasher.combine(bytes.count)
                }
            }
            hasher.combine(0xFF as UInt8)
        }
    }

    /// The index that a segment names in an array: digits without a leading zero (RFC 6901, section 4). nil for
    /// everything else, `-` included, which names the element after the last.
    static func arrayIndex(_ segment: String) -> Int? {
        let digits = segment.utf8
        guard let first = digits.first, digits.allSatisfy(NumberScanner.isDigit) else { return nil }
        guard first != UInt8(ascii: "0") || digits.count == 1 else { return nil }
        return Int(segment)
    }

    private static func pointerSegments(_ text: String, _ maximumSegments: Int) throws(JSONError) -> [String] {
        var segments: [String] = []
        var current: [UInt8] = []
        var afterTilde = false
        for (offset, byte) in text.utf8.enumerated() {
            if afterTilde {
                guard byte == UInt8(ascii: "0") || byte == UInt8(ascii: "1") else {
                    throw JSONError(.invalidPath, at: offset - 1, "in a pointer '~' is written ~0 and '/' ~1")
                }
                current.append(byte == UInt8(ascii: "0") ? UInt8(ascii: "~") : UInt8(ascii: "/"))
                afterTilde = false
            } else if byte == UInt8(ascii: "~") {
                afterTilde = true
            } else if byte == UInt8(ascii: "/") {
                if segments.count == maximumSegments { throw tooManySegments(maximumSegments, at: offset) }
                if offset > 0 { segments.append(String(decoding: current, as: UTF8.self)) }
                current.removeAll(keepingCapacity: true)
            } else {
                current.append(byte)
            }
        }
        if afterTilde {
            throw JSONError(.invalidPath, at: text.utf8.count - 1, "in a pointer '~' is written ~0 and '/' ~1")
        }
        if segments.count == maximumSegments { throw tooManySegments(maximumSegments, at: text.utf8.count) }
        segments.append(String(decoding: current, as: UTF8.self))
        return segments
    }

    private static func tooManySegments(_ maximum: Int, at offset: Int) -> JSONError {
        JSONError(.invalidPath, at: offset, "it has more than \(maximum) segments")
    }

    private static func dottedSegments(_ text: String, _ maximumSegments: Int) throws(JSONError) -> [String] {
        var segments: [String] = []
        var text = text
        let stoppedAt: Int? = text.withUTF8 { bytes in
            var start = 0
            for end in 0...bytes.count where end == bytes.count || bytes[end] == UInt8(ascii: ".") {
                if end == start || segments.count == maximumSegments { return start }
                segments.append(String(decoding: bytes[start..<end], as: UTF8.self))
                start = end + 1
            }
            return nil
        }
        guard let stoppedAt else { return segments }
        if segments.count == maximumSegments { throw tooManySegments(maximumSegments, at: stoppedAt) }
        throw JSONError(
            .invalidPath, at: stoppedAt,
            "a name between dots is empty; write the path as a pointer, such as /a//b, or as an array")
    }
}

extension JSONValue.Kind {
    /// The kind in words, with its article.
    var article: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}
