import Glibc

/// A path from a document to a value in it: member names and array indexes.
public struct JSONPath: Sendable, Hashable, CustomStringConvertible {
    /// The path as text: names separated by dots, if it was parsed from such a text, otherwise a JSON Pointer (RFC
    /// 6901). Empty for the whole document.
    private let text: String

    private init(text: String) { self.text = text }

    /// The path of the whole document.
    package static var root: JSONPath { JSONPath(text: "") }

    /// Creates a path from its segments. No segments mean the whole document.
    public init(_ segments: [String]) {
        text = segments.reduce(into: "") { pointer, segment in
            pointer.unicodeScalars.append("/")
            if segment.utf8.contains(where: Self.isEscaped) {
                for scalar in segment.unicodeScalars {
                    switch scalar {
                    case "~": pointer.unicodeScalars.append(contentsOf: "~0".unicodeScalars)
                    case "/": pointer.unicodeScalars.append(contentsOf: "~1".unicodeScalars)
                    default: pointer.unicodeScalars.append(scalar)
                    }
                }
            } else {
                pointer.append(segment)
            }
        }
    }

    /// Parses a path: an empty text for the whole document, a JSON Pointer (RFC 6901) if it begins with `/`, otherwise
    /// names separated by dots (`search.limit`, `servers.0`).
    ///
    /// - Throws: ``JSONError`` with `invalidPath` if a name between dots is empty, or if a `~` in a pointer is neither
    ///   `~0` nor `~1`. The offset counts UTF-8 bytes.
    public init(parsing text: String) throws(JSONError) {
        var text = text
        self = try text.withUTF8 { Self.result(UnsafeRawBufferPointer($0), .max) }.get()
    }

    /// Reads a path from a JSON value: a string in the form of ``init(parsing:)``, or an array of member names.
    ///
    /// The limits are checked before the path is copied.
    ///
    /// - Parameters:
    ///   - value: a string or an array of strings
    ///   - maximumSegments: the maximum number of segments
    ///   - maximumBytes: the maximum length of the value's JSON text
    /// - Throws: ``JSONError`` with `invalidPath` if the path is invalid or exceeds a limit, or `typeMismatch` if the
    ///   value is neither a string nor an array of strings
    package init(_ value: JSONValue, maximumSegments: Int = .max, maximumBytes: Int = .max) throws(JSONError) {
        self = try Self.read(
            value.document, value.node, maximumSegments: maximumSegments, maximumBytes: maximumBytes)
    }

    /// Reads a path from the value at a node.
    static func read(
        _ document: Document, _ node: Int, maximumSegments: Int, maximumBytes: Int
    ) throws(JSONError) -> JSONPath {
        let entry = document.nodes[node]
        guard Int(entry.length) <= maximumBytes else {
            throw JSONError(.invalidPath, at: 0, "it has \(entry.length) bytes, more than \(maximumBytes)")
        }
        if entry.kind == Node.Kind.string {
            if entry.has(Node.Flag.escaped) {
                return try Names.withBytes(entry, text: document.text) { result($0, maximumSegments) }.get()
            }
            let start = UnsafeRawPointer(document.text + Int(entry.offset) + 1)
            return try parse(UnsafeRawBufferPointer(start: start, count: Int(entry.length) &- 2), maximumSegments)
        }
        let value = JSONValue(document: document, node: node)
        guard entry.kind == Node.Kind.array else {
            throw JSONError(
                .typeMismatch, at: 0, "a path must be a string or an array of member names, not \(value.kind.article)")
        }
        var segments: [String] = []
        for element in value.elements {
            if segments.count == maximumSegments { throw tooManySegments(maximumSegments, at: 0) }
            guard let name = element.string else {
                throw JSONError(
                    .typeMismatch, at: 0,
                    "element \(segments.count) of a path must be a string, not \(element.kind.article)")
            }
            segments.append(name)
        }
        return JSONPath(segments)
    }

    /// The memory of the path's text in bytes.
    package var byteCount: Int { text.utf8.count }

    /// Whether this is the path of the whole document.
    public var isRoot: Bool { text.isEmpty }

    private var isPointer: Bool { text.utf8.first == UInt8(ascii: "/") }

    /// The path as a JSON Pointer (RFC 6901).
    public var pointer: String { isPointer ? text : JSONPath(segments).text }

    /// The names and indexes of the path, in order; empty for the whole document.
    public var segments: [String] {
        var segments: [String] = []
        if isRoot { return segments }
        let separator = UInt8(ascii: isPointer ? "/" : ".")
        segments.reserveCapacity(text.utf8.reduce(isPointer ? 0 : 1) { $1 == separator ? $0 + 1 : $0 })
        _ = forEachSegment { name in
            segments.append(String(checked: name))
            return true
        }
        return segments
    }

    /// The path as names separated by dots if all names permit that form, otherwise as a JSON Pointer.
    /// ``init(parsing:)`` parses this text to an equal path.
    public var description: String {
        guard isPointer else { return text }
        let segments = segments
        let isDotted =
            segments.allSatisfy { !$0.isEmpty && !$0.utf8.contains(UInt8(ascii: ".")) }
            && segments.first?.utf8.first != UInt8(ascii: "/")
        return isDotted ? segments.joined(separator: ".") : text
    }

    /// Whether two paths have the same segments. They are compared as UTF-8, without Unicode normalization.
    public static func == (left: JSONPath, right: JSONPath) -> Bool {
        left.isPointer == right.isPointer
            ? left.text.isSpelled(as: right.text) : left.pointer.isSpelled(as: right.pointer)
    }

    public func hash(into hasher: inout Hasher) {
        var pointer = pointer
        pointer.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// The array index that a segment denotes: digits without a leading zero (RFC 6901, section 4); nil for any other
    /// text, including `-`.
    static func arrayIndex(_ segment: UnsafeRawBufferPointer) -> Int? {
        guard let first = segment.first, segment.allSatisfy(NumberScanner.isDigit) else { return nil }
        guard first != UInt8(ascii: "0") || segment.count == 1 else { return nil }
        return Int(String(checked: segment))
    }

    /// Calls `body` with each segment until it returns false.
    /// - Returns: whether all calls returned true
    @inline(__always)
    func forEachSegment(_ body: (UnsafeRawBufferPointer) -> Bool) -> Bool {
        let result = text.utf8.withContiguousStorageIfAvailable { text in
            guard let first = text.first else { return true }
            let isPointer = first == UInt8(ascii: "/")
            let separator = isPointer ? first : UInt8(ascii: ".")
            var start = isPointer ? 1 : 0
            while start <= text.count {
                let end = Self.end(of: start, in: UnsafeRawBufferPointer(text), separator)
                let segment = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(text)[start..<end])
                let isEscaped = isPointer && segment.contains(UInt8(ascii: "~"))
                guard isEscaped ? Self.withUnescaped(segment, body) : body(segment) else { return false }
                start = end &+ 1
            }
            return true
        }
        guard let result else { preconditionFailure("the text of a path is a native string") }
        return result
    }

    @inline(never)
    private static func withUnescaped(
        _ segment: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Bool
    ) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: segment.count, alignment: 1) { name in
            var (index, count) = (0, 0)
            while index < segment.count {
                name[count] = segment[index]
                if segment[index] == UInt8(ascii: "~") {
                    index += 1
                    name[count] = segment[index] == UInt8(ascii: "0") ? UInt8(ascii: "~") : UInt8(ascii: "/")
                }
                index += 1
                count += 1
            }
            return body(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(name)[..<count]))
        }
    }

    private static func isEscaped(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "~") || byte == UInt8(ascii: "/") }

    private static func parse(_ text: UnsafeRawBufferPointer, _ maximum: Int) throws(JSONError) -> JSONPath {
        switch text.first {
        case nil: break
        case UInt8(ascii: "/"): try checkPointer(text, maximum)
        default: try checkDotted(text, maximum)
        }
        return JSONPath(text: String(checked: text))
    }

    private static func result(_ text: UnsafeRawBufferPointer, _ maximum: Int) -> Result<JSONPath, JSONError> {
        do throws(JSONError) { return .success(try parse(text, maximum)) } catch { return .failure(error) }
    }

    private static func checkPointer(_ text: UnsafeRawBufferPointer, _ maximum: Int) throws(JSONError) {
        var count = 1
        for index in 1..<text.count where text[index] == UInt8(ascii: "/") {
            if count == maximum { throw tooManySegments(maximum, at: index + 1) }
            count += 1
        }
        for index in 1..<text.count where text[index] == UInt8(ascii: "~") {
            let next = index + 1 < text.count ? text[index + 1] : 0
            guard next == UInt8(ascii: "0") || next == UInt8(ascii: "1") else {
                throw JSONError(.invalidPath, at: index, "in a pointer, write '~' as ~0 and '/' as ~1")
            }
        }
    }

    private static func checkDotted(_ text: UnsafeRawBufferPointer, _ maximum: Int) throws(JSONError) {
        var (count, start) = (1, 0)
        var empty: Int?
        for index in 0..<text.count where text[index] == UInt8(ascii: ".") {
            if index == start, empty == nil { empty = start }
            start = index &+ 1
            if count == maximum { throw tooManySegments(maximum, at: start) }
            count &+= 1
        }
        if start == text.count, empty == nil { empty = start }
        if let empty {
            throw JSONError(
                .invalidPath, at: empty,
                "a name between dots is empty; only a JSON Pointer, such as /a//b, can have empty names")
        }
    }

    /// The end of the segment that begins at `start`: the next separator, or the end of the text.
    @inline(__always)
    private static func end(of start: Int, in text: UnsafeRawBufferPointer, _ separator: UInt8) -> Int {
        guard let base = text.baseAddress, let found = memchr(base + start, CInt(separator), text.count &- start) else {
            return text.count
        }
        return UnsafeRawPointer(found) - base
    }

    private static func tooManySegments(_ maximum: Int, at offset: Int) -> JSONError {
        JSONError(.invalidPath, at: offset, "it has more than \(maximum) segments")
    }
}

extension JSONValue.Kind {
    /// The name of the kind with an indefinite article, such as `an object`; `null` has no article.
    package var article: String {
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
    /// Whether two strings have the same UTF-8. JSON names are compared like this: without normalization, two encodings
    /// of an accented letter are different names.
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
