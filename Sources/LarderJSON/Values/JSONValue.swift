/// A JSON value: a view of one place in an immutable document.
///
/// Copying a value copies a reference. A value keeps its whole document in memory; `detached()` gives it one of its
/// own.
public struct JSONValue: Sendable {
    /// The six kinds of RFC 8259, `true` and `false` being one.
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

    /// The truth value; nil for every other kind.
    public var bool: Bool? {
        let entry = entry
        return entry.kind == Node.Kind.bool ? entry.has(Node.Flag.isTrue) : nil
    }

    /// What the string says, escapes resolved; nil for every other kind.
    public var string: String? {
        entry.kind == Node.Kind.string ? text(of: node) : nil
    }

    /// The number exactly as it was written, such as `-0`, `1e400` or `0.1000`; nil for every other kind.
    public var numberText: String? {
        let entry = entry
        guard entry.kind == Node.Kind.number else { return nil }
        return withTextBytes { String(checked: $0) }
    }

    /// The number if it is written as an integer (`1`, `-0`, not `1.0` or `1e3`) that fits; nil otherwise.
    public var int: Int? {
        let entry = entry
        guard entry.kind == Node.Kind.number else { return nil }
        let start = textStart
        let negative = start.pointee == UInt8(ascii: "-")
        var result = 0
        for index in (negative ? 1 : 0)..<Int(entry.length) {
            let digit = start[index] &- 0x30
            guard digit < 10 else { return nil }
            let (product, overflow) = result.multipliedReportingOverflow(by: 10)
            let (sum, overflow2) =
                negative
                ? product.subtractingReportingOverflow(Int(digit)) : product.addingReportingOverflow(Int(digit))
            guard !overflow, !overflow2 else { return nil }
            result = sum
        }
        return result
    }

    /// The nearest double-precision number; nil if the value is no number or beyond the range (`1e400`).
    public var double: Double? {
        guard let text = numberText, let value = Double(text), value.isFinite else { return nil }
        return value
    }

    /// The number of elements or of distinct members; 0 for scalars.
    public var count: Int {
        let entry = entry
        guard entry.storedCount == Node.maximumCount else { return Int(entry.storedCount) }
        if entry.has(Node.Flag.indexed) {
            return Int(document.nodes[node + Int(entry.span) - 1].span)
        }
        return elements.reduce(0) { count, _ in count + 1 }
    }

    /// Hands over the value's text exactly as it came in. The bytes are valid during the call only.
    public func withTextBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try withExtendedLifetime(document) {
            try body(UnsafeRawBufferPointer(start: textStart, count: Int(entry.length)))
        }
    }

    /// The text of a string or name node, escapes resolved.
    func text(of node: Int) -> String {
        Names.withBytes(document.nodes[node], text: document.text) { String(checked: $0) }
    }
}

extension JSONValue {
    /// The member called `name`; of duplicates the last one. nil if there is none or the value is no object.
    ///
    /// Names are the same when their UTF-8 is, with escapes resolved and without Unicode normalisation.
    public subscript(_ name: String) -> JSONValue? {
        var name = name
        let found = name.withUTF8 { Names.find(document.storage, object: node, UnsafeRawBufferPointer($0)) }
        return found.map { JSONValue(document: document, node: $0) }
    }

    /// The member called `name`, as the subscript finds it, for names that are known when the program is built.
    public func member(_ name: StaticString) -> JSONValue? {
        let found = Names.find(document.storage, object: node, name.utf8Start, name.utf8CodeUnitCount)
        return found.map { JSONValue(document: document, node: $0) }
    }

    /// The members with four names, as ``member(_:)`` finds them, in one pass over an object with few members.
    package func members(
        _ first: StaticString, _ second: StaticString, _ third: StaticString, _ fourth: StaticString
    ) -> (JSONValue?, JSONValue?, JSONValue?, JSONValue?) {
        let nodes = document.nodes
        let entry = entry
        guard entry.kind == Node.Kind.object, !entry.has(Node.Flag.indexed) else {
            return (member(first), member(second), member(third), member(fourth))
        }
        var found = (0, 0, 0, 0)
        var name = node + 1
        let end = node &+ Int(entry.span)
        while name < end {
            let value = Names.winner(nodes, name) &+ 1
            if found.0 == 0, isName(name, first) {
                found.0 = value
            } else if found.1 == 0, isName(name, second) {
                found.1 = value
            } else if found.2 == 0, isName(name, third) {
                found.2 = value
            } else if found.3 == 0, isName(name, fourth) {
                found.3 = value
            }
            name &+= 1 &+ Int(nodes[name &+ 1].span)
        }
        return (optional(found.0), optional(found.1), optional(found.2), optional(found.3))
    }

    @inline(__always)
    private func optional(_ node: Int) -> JSONValue? { node == 0 ? nil : JSONValue(document: document, node: node) }

    @inline(__always)
    private func isName(_ node: Int, _ name: StaticString) -> Bool {
        Names.says(document.nodes[node], document.text, name.utf8Start, name.utf8CodeUnitCount)
    }

    /// Bit n is set if the object may have a member whose name has n bytes; bit 63 stands for longer names, too.
    ///
    /// To look for many names in a small object it is quicker to ask this first.
    package var nameLengths: UInt64 {
        let nodes = document.nodes
        let entry = entry
        guard entry.kind == Node.Kind.object, !entry.has(Node.Flag.indexed), entry.storedCount <= 8 else { return .max }
        var lengths: UInt64 = 0
        var name = node + 1
        while name < node &+ Int(entry.span) {
            if nodes[name].has(Node.Flag.escaped) { return .max }
            lengths |= Self.lengthBit(Int(nodes[name].length) &- 2)
            name &+= 1 &+ Int(nodes[name &+ 1].span)
        }
        return lengths
    }

    /// The bit of ``nameLengths`` that stands for names of `count` bytes.
    @inlinable
    package static func lengthBit(_ count: Int) -> UInt64 { 1 &<< UInt64(truncatingIfNeeded: min(count, 63)) }

    /// Whether the value is a string that says `text`.
    public func isString(_ text: StaticString) -> Bool {
        let entry = entry
        guard entry.kind == Node.Kind.string else { return false }
        return text.withUTF8Buffer { Names.matches(entry, text: document.text, UnsafeRawBufferPointer($0)) }
    }

    /// The element at `index`, from 0. nil if there is none or the value is no array.
    ///
    /// Elements before it are stepped over one by one unless all are scalars; to visit many use `elements`.
    public subscript(_ index: Int) -> JSONValue? {
        guard entry.kind == Node.Kind.array else { return nil }
        return Self.element(of: document.nodes, node, at: index).map { JSONValue(document: document, node: $0) }
    }

    /// The node of an array's element.
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

    /// The value that `path` leads to, or nil.
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
    /// The size of the text in bytes.
    package var textSize: Int { Int(entry.length) }

    /// Where the text is in that of the whole document, in bytes.
    package var textRange: Range<Int> { Int(entry.offset)..<Int(entry.offset) + Int(entry.length) }

    /// Whether the text that ``withTextBytes(_:)`` hands over is ``compactBytes`` already, and that of every value in it.
    public var isCompact: Bool { entry.has(Node.Flag.clean) }

    /// The value as compact JSON: no whitespace between tokens, of duplicate members only the one that counts. Strings
    /// and numbers stay as they were written.
    public var compactBytes: [UInt8] {
        if isCompact { return withTextBytes { [UInt8]($0) } }
        var writer = JSONWriter(reservingCapacity: Int(entry.length))
        writer.value(self)
        return writer.bytes
    }

    /// `compactBytes` as text.
    public var compactText: String {
        if isCompact { return withTextBytes { String(checked: $0) } }
        return String(decoding: compactBytes, as: UTF8.self)
    }

    public var description: String { compactText }
}

extension JSONValue {
    /// What the document that this value is part of takes in memory, its tape and tables included, in bytes: whoever keeps the
    /// value keeps all of it.
    package var documentMemory: Int {
        let storage = document.storage.pointee
        return storage.textCapacity + storage.nodeCapacity * MemoryLayout<Node>.stride
            + storage.slotCapacity * MemoryLayout<UInt32>.stride
    }
}

extension JSONValue {
    /// Where in the text that was parsed the last step of a path stands that leads to something, for people who look
    /// for it.
    public struct Place: Sendable, Hashable {
        /// The line, from 1: of a member's name, or of an element.
        public let line: Int
        /// How many steps of the path led there; where it is fewer than the path has, nothing is at its end.
        public let depth: Int
    }

    /// The place of a path in the text that this value was parsed from, or of as much of the path as is there. Of members
    /// with the same name it is the last one, which counts.
    ///
    /// Lines end with LF. A value that was made by a program, or copied by `detached()`, is all on one line.
    public func place(of path: JSONPath) -> Place {
        var (found, depth, start) = (self, 0, entry.offset)
        _ = path.forEachSegment { segment in
            if let member = Names.find(document.storage, object: found.node, segment) {
                // A member's name has the node before that of its value.
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
    /// The value that a writer's calls say.
    ///
    /// - Precondition: the calls make exactly one JSON value (each `begin` has its `end`, each name a value).
    public static func building(_ body: (inout JSONWriter) -> Void) -> JSONValue {
        var writer = JSONWriter()
        body(&writer)
        return writer.bytes.withUnsafeBytes { bytes in
            switch parse(bytes, .max) {
            case .success(let value): return value
            case .failure(let error): preconditionFailure("the calls made no JSON value: \(error)")
            }
        }
    }

    public static let null: JSONValue = building { $0.null() }
    /// The object without members.
    public static let emptyObject: JSONValue = building { writer in
        writer.beginObject()
        writer.endObject()
    }
    private static let yes: JSONValue = building { $0.bool(true) }
    private static let no: JSONValue = building { $0.bool(false) }

    public static func string(_ text: String) -> JSONValue { building { $0.string(text) } }
    /// An integer.
    public static func int(_ number: Int) -> JSONValue { building { $0.int(number) } }
    /// A number in its shortest form; `null` for what JSON cannot say, infinities and NaN.
    public static func double(_ number: Double) -> JSONValue { building { $0.double(number) } }
    public static func bool(_ truth: Bool) -> JSONValue { truth ? yes : no }

    public static func array(_ elements: [JSONValue]) -> JSONValue {
        building { writer in
            writer.beginArray()
            for element in elements { writer.value(element) }
            writer.endArray()
        }
    }

    /// An object. Of members with the same name the last one counts.
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

    /// The same value, compact, in a document of its own: for keeping a small part of a large document.
    public func detached() -> JSONValue {
        let entry = entry
        guard entry.has(Node.Flag.clean) else { return JSONValue.building { $0.value(self) } }
        // Its text is its compact form, and its part of the tape says all that parsing it again would find out.
        var builder = TapeBuilder(textCapacity: Int(entry.length), nodeCapacity: Int(entry.span))
        builder.copy(document, node)
        return builder.finish()
    }
}

// There is no nil literal on purpose: with it `found ? value : nil` would be a JSON `null` where an absent value is
// meant, because the compiler prefers the type that needs no optional. `null` is written `.null`.
extension JSONValue: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int) { self = .int(value) }
    /// A number in its shortest form.
    public init(floatLiteral value: Double) { self = .double(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    /// An object. Of members with the same name the last one counts.
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(elements) }
}

extension String {
    /// The text of a value, which the parser has checked.
    init(checked text: UnsafeRawBufferPointer) {
        // Up to this length a string has no memory of its own: text copied into it takes a third of what `init(decoding:)` takes.
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
