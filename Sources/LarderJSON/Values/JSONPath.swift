import Glibc

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
    /// A path of more than these is refused before more is made of it.
    ///
    /// - Parameters:
    ///   - maximumSegments: how many segments it may have.
    ///   - maximumBytes: how long its JSON text may be.
    /// - Throws: `JSONError`: `invalidPath` as `init(parsing:)`, `typeMismatch` for any other value.
    public init(_ value: JSONValue, maximumSegments: Int = .max, maximumBytes: Int = .max) throws(JSONError) {
        let bytes = value.withTextBytes { $0.count }
        guard bytes <= maximumBytes else {
            throw JSONError(.invalidPath, at: 0, "it has \(bytes) bytes, where \(maximumBytes) are the most")
        }
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

    /// Feeds the steps' UTF-8 to `hasher`.
    public func hash(into hasher: inout Hasher) {
        for segment in segments {
            var segment = segment
            segment.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
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
        var segments = try split(text, at: UInt8(ascii: "/"), from: 1, maximumSegments)
        guard text.utf8.contains(UInt8(ascii: "~")) else { return segments }
        var offset = 1
        for index in segments.indices {
            let length = segments[index].utf8.count
            segments[index] = try unescaped(segments[index], at: offset)
            offset += length + 1
        }
        return segments
    }

    private static func unescaped(_ piece: String, at offset: Int) throws(JSONError) -> String {
        var bytes: [UInt8] = []
        var tilde: Int?
        for (index, byte) in piece.utf8.enumerated() {
            switch (tilde, byte) {
            case (nil, UInt8(ascii: "~")): tilde = index
            case (nil, _): bytes.append(byte)
            case (_, UInt8(ascii: "0")), (_, UInt8(ascii: "1")):
                bytes.append(byte == UInt8(ascii: "0") ? UInt8(ascii: "~") : UInt8(ascii: "/"))
                tilde = nil
            case (let index?, _): throw wrongTilde(at: offset + index)
            }
        }
        if let tilde { throw wrongTilde(at: offset + tilde) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func wrongTilde(at offset: Int) -> JSONError {
        JSONError(.invalidPath, at: offset, "in a pointer '~' is written ~0 and '/' ~1")
    }

    private static func dottedSegments(_ text: String, _ maximumSegments: Int) throws(JSONError) -> [String] {
        let segments = try split(text, at: UInt8(ascii: "."), from: 0, maximumSegments)
        guard let empty = segments.firstIndex(where: \.isEmpty) else { return segments }
        throw JSONError(
            .invalidPath, at: segments[..<empty].reduce(0) { $0 + $1.utf8.count + 1 },
            "a name between dots is empty; write the path as a pointer, such as /a//b, or as an array")
    }

    /// The pieces of a text between separators.
    private static func split(
        _ text: String, at separator: UInt8, from start: Int, _ maximum: Int
    ) throws(JSONError) -> [String] {
        var (text, start) = (text, start)
        let pieces: [String]? = text.withUTF8 { bytes in
            var pieces: [String] = []
            pieces.reserveCapacity(min(bytes.count { $0 == separator } + 1, maximum))
            while pieces.count < maximum {
                let rest = UnsafeBufferPointer(rebasing: bytes[start...])
                let length = position(of: separator, in: rest)
                pieces.append(String(decoding: rest.prefix(length ?? rest.count), as: UTF8.self))
                guard let length else { return pieces }
                start += length + 1
            }
            return nil
        }
        guard let pieces else { throw tooManySegments(maximum, at: start) }
        return pieces
    }

    private static func position(of byte: UInt8, in bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        guard let base = bytes.baseAddress, let found = memchr(base, CInt(byte), bytes.count) else { return nil }
        return UnsafeRawPointer(found) - UnsafeRawPointer(base)
    }

    private static func tooManySegments(_ maximum: Int, at offset: Int) -> JSONError {
        JSONError(.invalidPath, at: offset, "it has more than \(maximum) segments")
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

extension String {
    /// Whether two strings have the same UTF-8, as JSON tells names apart: without normalisation, where two ways to write an
    /// accent make two names.
    package func isSpelled(as other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        let isSame = utf8.withContiguousStorageIfAvailable { bytes in
            other.utf8.withContiguousStorageIfAvailable { others in
                guard let start = bytes.baseAddress, let otherStart = others.baseAddress else { return true }
                return memcmp(start, otherStart, bytes.count) == 0
            }
        }
        return (isSame ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}
