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

    /// The kind of the value.
    public var kind: Kind { Kind(rawValue: UInt8(truncatingIfNeeded: entry.kind)) ?? .null }

    /// Whether the value is `null`.
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
    package func withTextBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try withExtendedLifetime(document) {
            try body(UnsafeRawBufferPointer(start: textStart, count: Int(entry.length)))
        }
    }

    /// The text of a string or name node, with its escapes resolved.
    func text(of node: Int) -> String {
        Names.withBytes(document.nodes[node], text: document.text) { String(checked: $0) }
    }

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
    package func member(_ name: StaticString) -> JSONValue? {
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
    package func isString(_ text: StaticString) -> Bool {
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

    /// The length in bytes of the text of the value as it was parsed. ``compactText`` may be shorter.
    package var textSize: Int { Int(entry.length) }

    /// The range of the text within the text of the document, in bytes.
    package var textRange: Range<Int> { Int(entry.offset)..<Int(entry.offset) + Int(entry.length) }

    /// Whether ``withTextBytes(_:)`` passes the same bytes to its closure as ``compactBytes`` returns.
    package var isCompact: Bool { entry.has(Node.Flag.clean) }

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

    /// The position to which a path, or its longest existing prefix, leads in the text that a value was parsed from.
    /// Used in error messages.
    package struct Place: Sendable, Hashable {
        /// The line, from 1, of the last name or element that was found.
        package let line: Int
        /// The number of path segments that were found. If it is less than the length of the path, there is no value at
        /// the path.
        package let depth: Int
    }

    /// The position, in the original text, of the member name or array element that a path ends at. If there is no
    /// value at the path, the position for the longest prefix of the path that has a value. If a member is duplicated,
    /// the position of its last occurrence.
    ///
    /// Lines end with LF. A value that was built by a program or copied by ``detached()`` is a single line.
    package func place(of path: JSONPath) -> Place {
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
