/// A JSON value: a reference to a position in an immutable document.
///
/// Copying a value copies a reference. A value keeps its whole document in memory. ``detached()`` copies it into a
/// document of its own.
public struct JSONValue: Sendable {
    /// The kinds of values in RFC 8259. `true` and `false` are one kind.
    public enum Kind: UInt8, Sendable {
        case null, bool, number, string, array, object
    }

    let document: Document
    private let index: UInt32

    init(document: Document, node: Int) {
        self.document = document
        self.index = UInt32(truncatingIfNeeded: node)
    }

    @inline(__always) var node: Int { Int(index) }
    @inline(__always) var entry: Node { document.nodes[node] }
    @inline(__always) var textStart: UnsafePointer<UInt8> { document.text + Int(entry.offset) }

    public var kind: Kind { Kind(rawValue: UInt8(truncatingIfNeeded: entry.kind)) ?? .null }

    public var isNull: Bool { entry.kind == Node.Kind.null }

    /// The boolean; nil for other kinds.
    public var bool: Bool? {
        let entry = entry
        return entry.kind == Node.Kind.bool ? entry.has(Node.Flag.isTrue) : nil
    }

    /// The string with its escapes resolved; nil for other kinds.
    public var string: String? {
        entry.kind == Node.Kind.string ? text(of: node) : nil
    }

    /// The number as it was written, such as `-0`, `1e400` or `0.1000`; nil for other kinds.
    public var numberText: String? {
        let entry = entry
        guard entry.kind == Node.Kind.number else { return nil }
        return withTextBytes { String(checked: $0) }
    }

    /// The number if it is written as an integer (`1` or `-0`, not `1.0` or `1e3`) and fits into `Int`; otherwise nil.
    public var int: Int? { entry.kind == Node.Kind.number ? withTextBytes(Self.int(ofText:)) : nil }

    /// Parses an integer from the text of a scalar. Returns nil if the text has a fraction or an exponent, is not a
    /// number, or does not fit into `Int`.
    package static func int(ofText text: UnsafeRawBufferPointer) -> Int? {
        let isNegative = text.first == UInt8(ascii: "-")
        let start = isNegative ? 1 : 0
        guard text.count > start else { return nil }
        var result = 0
        for index in start..<text.count {
            let digit = text[index] &- UInt8(ascii: "0")
            guard digit < 10 else { return nil }
            let (product, overflows) = result.multipliedReportingOverflow(by: 10)
            let (sum, overflowsToo) =
                isNegative
                ? product.subtractingReportingOverflow(Int(digit)) : product.addingReportingOverflow(Int(digit))
            if overflows || overflowsToo { return nil }
            result = sum
        }
        return result
    }

    /// The nearest double-precision number; nil if the value is not a number or is out of range (`1e400`).
    public var double: Double? {
        guard let text = numberText, let value = Double(text), value.isFinite else { return nil }
        return value
    }

    /// The number of elements, or of members with distinct names; 0 for scalars.
    public var count: Int {
        let entry = entry
        guard entry.storedCount == Node.maxCount else { return Int(entry.storedCount) }
        if entry.has(Node.Flag.indexed) {
            return Int(document.nodes[node + Int(entry.span) - 1].span)
        }
        return elements.reduce(0) { count, _ in count + 1 }
    }

    /// Calls `body` with the value's text as it was parsed. The bytes are valid only during the call.
    public func withTextBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try withExtendedLifetime(document) {
            try body(UnsafeRawBufferPointer(start: textStart, count: Int(entry.length)))
        }
    }

    /// The text of a string or name node, with its escapes resolved.
    func text(of node: Int) -> String {
        Names.withBytes(document.nodes[node], text: document.text) { String(checked: $0) }
    }
}

extension JSONValue {
    /// The member called `name`; nil if it does not exist or the value is not an object. If several members have this
    /// name, the last one counts.
    ///
    /// Names are compared as UTF-8 with escapes resolved, without Unicode normalization.
    public subscript(_ name: String) -> JSONValue? {
        var name = name
        let found = name.withUTF8 { Names.find(document.storage, object: node, UnsafeRawBufferPointer($0)) }
        return found.map { JSONValue(document: document, node: $0) }
    }

    /// The member called `name`, as the subscript returns it. Takes names that are constants of the program.
    public func member(_ name: StaticString) -> JSONValue? {
        let found = Names.find(document.storage, object: node, name.utf8Start, name.utf8CodeUnitCount)
        return found.map { JSONValue(document: document, node: $0) }
    }

    /// The number of members of an object, as ``count`` returns it, and a bit set of the lengths of their names: bit n
    /// is set if the object may have a member whose name has n bytes. Bit 63 also stands for longer names. Other values
    /// have no members. A caller that looks up many names in a small object is faster if it skips the names whose bit is
    /// clear.
    package var memberSummary: (nameLengths: UInt64, count: Int) {
        let nodes = document.nodes
        let entry = entry
        guard entry.kind == Node.Kind.object else { return (0, 0) }
        guard !entry.has(Node.Flag.indexed), entry.storedCount <= 8 else { return (.max, count) }
        var lengths: UInt64 = 0
        var name = node + 1
        while name < node &+ Int(entry.span) {
            if nodes[name].has(Node.Flag.escaped) { return (.max, Int(entry.storedCount)) }
            lengths |= Self.lengthBit(Int(nodes[name].length) &- 2)
            name &+= 1 &+ Int(nodes[name &+ 1].span)
        }
        return (lengths, Int(entry.storedCount))
    }

    /// The bit of ``memberSummary`` for names of `count` bytes.
    @inlinable
    package static func lengthBit(_ count: Int) -> UInt64 { 1 &<< UInt64(truncatingIfNeeded: min(count, 63)) }

    /// Whether the value is the string `text`.
    public func isString(_ text: StaticString) -> Bool {
        let entry = entry
        guard entry.kind == Node.Kind.string else { return false }
        return Names.equals(entry, document.text, text.utf8Start, text.utf8CodeUnitCount)
    }

    /// The element at `index`, counted from 0; nil if there is no such element or the value is not an array.
    ///
    /// Takes constant time if all elements are scalars, otherwise time proportional to `index`. Use ``elements`` to
    /// visit many elements.
    public subscript(_ index: Int) -> JSONValue? {
        guard entry.kind == Node.Kind.array else { return nil }
        return Self.element(of: document.nodes, node, at: index).map { JSONValue(document: document, node: $0) }
    }

    /// The node of an array element; nil if the index is out of range.
    private static func element(of nodes: UnsafePointer<Node>, _ array: Int, at index: Int) -> Int? {
        let entry = nodes[array]
        guard index >= 0, index < Int(entry.span) - 1 else { return nil }
        if Int(entry.storedCount) == Int(entry.span) - 1 { return array + 1 + index }
        var element = array + 1
        let end = array + Int(entry.span)
        var left = index
        while element < end {
            if left == 0 { return element }
            left -= 1
            element += Int(nodes[element].span)
        }
        return nil
    }

    /// The path that the member called `name` contains, in the form of ``JSONPath/init(_:maximumSegments:maximumBytes:)``;
    /// nil if the member is absent or null.
    ///
    /// - Throws: the errors of ``JSONPath/init(_:maximumSegments:maximumBytes:)``
    package func path(
        at name: StaticString, maximumSegments: Int, maximumBytes: Int
    ) throws(JSONError) -> JSONPath? {
        guard let found = Names.find(document.storage, object: node, name.utf8Start, name.utf8CodeUnitCount),
            document.nodes[found].kind != Node.Kind.null
        else { return nil }
        return try JSONPath.read(document, found, maximumSegments: maximumSegments, maximumBytes: maximumBytes)
    }

    /// The value at `path`; nil if it does not exist.
    public func value(at path: JSONPath) -> JSONValue? {
        var node = node
        let (storage, nodes) = (document.storage, document.nodes)
        let isThere = path.forEachSegment { segment in
            if let member = Names.find(storage, object: node, segment) {
                node = member
            } else if nodes[node].kind == Node.Kind.array, let index = JSONPath.arrayIndex(segment),
                let element = Self.element(of: nodes, node, at: index)
            {
                node = element
            } else {
                return false
            }
            return true
        }
        return isThere ? JSONValue(document: document, node: node) : nil
    }
}

extension JSONValue: CustomStringConvertible {
    /// The length in bytes of the text of the value as it was parsed. ``compactText`` may be shorter.
    package var textSize: Int { Int(entry.length) }

    /// The range of the text within the text of the document, in bytes.
    package var textRange: Range<Int> { Int(entry.offset)..<Int(entry.offset) + Int(entry.length) }

    /// Whether ``withTextBytes(_:)`` passes the same bytes to its closure as ``compactBytes`` returns.
    public var isCompact: Bool { entry.has(Node.Flag.clean) }

    /// The value as compact JSON: without whitespace between tokens and without duplicate members, of which the last
    /// one counts. Strings and numbers keep their original spelling.
    public var compactBytes: [UInt8] {
        if isCompact { return withTextBytes { [UInt8]($0) } }
        var writer = JSONWriter(reservingCapacity: Int(entry.length))
        writer.value(self)
        return writer.bytes
    }

    /// ``compactBytes`` as text.
    public var compactText: String {
        if isCompact { return withTextBytes { String(checked: $0) } }
        return String(decoding: compactBytes, as: UTF8.self)
    }

    public var description: String { compactText }
}

extension JSONValue {
    /// The memory of the document that contains this value, in bytes, including its tape and tables. A value keeps all
    /// of this memory allocated.
    package var documentMemory: Int {
        let storage = document.storage.pointee
        return storage.textCapacity + storage.nodeCapacity * MemoryLayout<Node>.stride
            + storage.slotCapacity * MemoryLayout<UInt32>.stride
    }

    /// An upper bound of the memory of a copy made with ``detached()``, in bytes. Takes constant time.
    package var detachedMemory: Int {
        let (length, nodes) = (Int(entry.length), Int(entry.span))
        // An object with a table has at most two slots for each node. The memory of the slots grows by doubling.
        let slots = 2 * min(document.storage.pointee.slotCount, 2 * nodes)
        let bytes = length + nodes * MemoryLayout<Node>.stride
        // ``Document/trim()`` leaves up to an eighth and a few bytes unused. The rest is for the objects that own the
        // memory, and for the memory that the allocator adds to each allocation.
        return bytes + bytes / 8 + slots * MemoryLayout<UInt32>.stride + 512
    }
}

extension JSONValue {
    /// The position to which a path, or its longest existing prefix, leads in the text that a value was parsed from.
    /// Used in error messages.
    public struct Place: Sendable, Hashable {
        /// The line, from 1, of the last name or element that was found.
        public let line: Int
        /// The number of path segments that were found. If it is less than the length of the path, there is no value at
        /// the path.
        public let depth: Int
    }

    /// The position, in the original text, of the member name or array element that a path ends at. If there is no
    /// value at the path, the position for the longest prefix of the path that has a value. If a member is duplicated,
    /// the position of its last occurrence.
    ///
    /// Lines end with LF. A value that was built by a program or copied by ``detached()`` is a single line.
    public func place(of path: JSONPath) -> Place {
        var (found, depth, start) = (self, 0, entry.offset)
        _ = path.forEachSegment { segment in
            if let member = Names.find(document.storage, object: found.node, segment) {
                // The node of a member's name is directly before the node of its value.
                (found, start) = (JSONValue(document: document, node: member), document.nodes[member - 1].offset)
            } else if let index = JSONPath.arrayIndex(segment), let element = found[index] {
                (found, start) = (element, element.entry.offset)
            } else {
                return false
            }
            depth += 1
            return true
        }
        let text = UnsafeBufferPointer(start: document.text, count: Int(start))
        let line = 1 + text.count { $0 == UInt8(ascii: "\n") }
        return Place(line: line, depth: depth)
    }
}

extension JSONValue {
    /// Builds a value from the calls of a writer.
    ///
    /// - Precondition: the calls write exactly one JSON value (each `begin` has its `end`, each name a value)
    public static func building(_ body: (inout JSONWriter) -> Void) -> JSONValue {
        var writer = JSONWriter()
        body(&writer)
        return writer.bytes.withUnsafeBytes { bytes in
            switch parse(bytes, .max) {
            case .success(let value): return value
            case .failure(let error): preconditionFailure("the calls did not write a JSON value: \(error)")
            }
        }
    }

    public static let null: JSONValue = building { $0.null() }
    /// The empty object.
    public static let emptyObject: JSONValue = building { writer in
        writer.beginObject()
        writer.endObject()
    }
    private static let yes: JSONValue = building { $0.bool(true) }
    private static let no: JSONValue = building { $0.bool(false) }

    public static func string(_ text: String) -> JSONValue { building { $0.string(text) } }
    public static func int(_ number: Int) -> JSONValue { building { $0.int(number) } }
    /// A number in its shortest form; `null` for infinities and NaN, which JSON cannot represent.
    public static func double(_ number: Double) -> JSONValue { building { $0.double(number) } }
    public static func bool(_ truth: Bool) -> JSONValue { truth ? yes : no }

    public static func array(_ elements: [JSONValue]) -> JSONValue {
        building { writer in
            writer.beginArray()
            for element in elements { writer.value(element) }
            writer.endArray()
        }
    }

    /// An object. If several members have the same name, the last one counts.
    public static func object(_ members: [(String, JSONValue)]) -> JSONValue {
        building { writer in
            writer.beginObject()
            for (name, value) in members {
                writer.name(name)
                writer.value(value)
            }
            writer.endObject()
        }
    }

    /// Copies the value, in compact form, into a document of its own. Use it to keep a small part of a large document.
    public func detached() -> JSONValue {
        let entry = entry
        guard entry.has(Node.Flag.clean) else { return JSONValue.building { $0.value(self) } }
        // The text is compact, so the tape can be copied too. Parsing the text again would produce the same tape.
        var builder = TapeBuilder(textCapacity: Int(entry.length), nodeCapacity: Int(entry.span))
        builder.copy(document, node)
        return builder.finish()
    }
}

// `JSONValue` is not expressible by a nil literal, on purpose. If it were, `found ? value : nil` would yield a JSON
// `null` instead of an absent value, because the compiler prefers the type that is not optional. Write `.null` for
// `null`.
extension JSONValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int) { self = .int(value) }
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// An object. If several members have the same name, the last one counts.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(elements) }
}

extension String {
    /// Creates a string from UTF-8 that the parser has validated.
    init(checked text: UnsafeRawBufferPointer) {
        // Swift stores strings of up to 15 bytes inline. Copying bytes into such a string takes a third of the time of
        // `init(decoding:as:)`.
        guard text.count <= 15 else {
            self = String(decoding: text, as: UTF8.self)
            return
        }
        self = String(unsafeUninitializedCapacity: text.count) { buffer in
            UnsafeMutableRawBufferPointer(buffer).copyMemory(from: text)
            return text.count
        }
    }
}

/// Coding with any encoder or decoder. Numbers pass through `Int` or `Double`, so a number that fits into neither loses
/// precision.
extension JSONValue: Codable {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public init(from decoder: any Decoder) throws {
        if let object = try? decoder.container(keyedBy: Name.self) {
            self = .object(
                try object.allKeys.map { ($0.stringValue, try object.decode(JSONValue.self, forKey: $0)) })
        } else if var array = try? decoder.unkeyedContainer() {
            var elements: [JSONValue] = []
            while !array.isAtEnd { elements.append(try array.decode(JSONValue.self)) }
            self = .array(elements)
        } else {
            self = try Self.scalar(from: decoder.singleValueContainer())
        }
    }

    private static func scalar(from container: any SingleValueDecodingContainer) throws -> JSONValue {
        if container.decodeNil() { return .null }
        if let bool = try? container.decode(Bool.self) { return .bool(bool) }
        if let int = try? container.decode(Int.self) { return .int(int) }
        if let double = try? container.decode(Double.self) { return .double(double) }
        return .string(try container.decode(String.self))
    }

    public func encode(to encoder: any Encoder) throws {
        switch kind {
        case .object:
            var object = encoder.container(keyedBy: Name.self)
            for (name, value) in members { try object.encode(value, forKey: Name(stringValue: name)) }
        case .array:
            var array = encoder.unkeyedContainer()
            for element in elements { try array.encode(element) }
        case .null, .bool, .number, .string:
            var single = encoder.singleValueContainer()
            if let bool { return try single.encode(bool) }
            if let string { return try single.encode(string) }
            if let int { return try single.encode(int) }
            if let double { return try single.encode(double) }
            try single.encodeNil()
        }
    }
}
