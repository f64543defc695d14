/// The place of a value in the document of another value. Unlike a ``JSONValue``, it does not keep the document in
/// memory, so copying it costs no reference counting.
package struct JSONPosition: Sendable {
    let node: UInt32
    package let kind: JSONValue.Kind

    /// - Parameter node: the node of the value; 0 for none
    @inline(__always)
    fileprivate init?(_ nodes: UnsafePointer<Node>, _ node: UInt32) {
        if node == 0 { return nil }
        self.node = node
        kind = JSONValue.Kind(rawValue: UInt8(truncatingIfNeeded: nodes[Int(node)].kind)) ?? .null
    }
}

extension JSONValue {
    /// Returns the members whose names have the positions 0 to 3 in an index, as ``member(_:)`` would return them. Takes
    /// one pass over the object.
    package func members(
        _ names: NameIndex
    ) -> (JSONPosition?, JSONPosition?, JSONPosition?, JSONPosition?) {
        let (nodes, text, entry) = (document.nodes, document.text, entry)
        guard entry.kind == Node.Kind.object else { return (nil, nil, nil, nil) }
        // The node of each value; 0 for none.
        var found: (UInt32, UInt32, UInt32, UInt32) = (0, 0, 0, 0)
        withUnsafeMutableBytes(of: &found) { found in
            var name = node &+ 1
            let end = node &+ Int(entry.span) &- (entry.has(Node.Flag.indexed) ? 1 : 0)
            while name < end {
                if !nodes[name].has(Node.Flag.later),
                    let position = names.position(ofName: nodes[name], text: text), position < 4
                {
                    let value = UInt32(truncatingIfNeeded: Names.winner(nodes, name) &+ 1)
                    found.storeBytes(of: value, toByteOffset: 4 &* position, as: UInt32.self)
                }
                name &+= 1 &+ Int(nodes[name &+ 1].span)
            }
        }
        return (
            JSONPosition(nodes, found.0), JSONPosition(nodes, found.1), JSONPosition(nodes, found.2),
            JSONPosition(nodes, found.3)
        )
    }

    /// The value at a position, which must stem from a value of the same document.
    package subscript(_ position: JSONPosition) -> JSONValue {
        JSONValue(document: document, node: Int(position.node))
    }

    /// Whether the value at a position is the string `text`.
    package func isString(at position: JSONPosition, _ text: StaticString) -> Bool {
        position.kind == .string
            && Names.equals(
                document.nodes[Int(position.node)], document.text, text.utf8Start, text.utf8CodeUnitCount)
    }

    /// The range, in bytes, of the text of the value at a position within the text of the document.
    package func textRange(at position: JSONPosition) -> Range<Int> {
        let entry = document.nodes[Int(position.node)]
        return Int(entry.offset)..<Int(entry.offset) + Int(entry.length)
    }

    /// The elements of an array, in order; empty for other kinds.
    public var elements: Elements { Elements(value: self) }

    /// The members of an object, in the order in which their names first appear; empty for other kinds. Each name
    /// occurs once, with its last value.
    public var members: Members { Members(value: self) }

    /// The names that occur more than once in this object, once for each further occurrence; empty for other values. In
    /// a compact text, which has no such names, this takes constant time.
    package var duplicateNames: [String] {
        let entry = entry
        guard entry.kind == Node.Kind.object, !entry.has(Node.Flag.clean) else { return [] }
        let nodes = document.nodes
        var names: [String] = []
        var name = node + 1
        let end = node &+ Int(entry.span) &- (entry.has(Node.Flag.indexed) ? 1 : 0)
        while name < end {
            if nodes[name].has(Node.Flag.later) { names.append(text(of: name)) }
            name &+= 1 &+ Int(nodes[name &+ 1].span)
        }
        return names
    }

    /// The elements of an array.
    public struct Elements: Sequence, Sendable {
        fileprivate let value: JSONValue

        public struct Iterator: IteratorProtocol {
            private let document: Document
            private var node: Int
            private let end: Int

            fileprivate init(_ value: JSONValue) {
                document = value.document
                node = value.node + 1
                let entry = value.entry
                end = entry.kind == Node.Kind.array ? value.node + Int(entry.span) : node
            }

            public mutating func next() -> JSONValue? {
                guard node < end else { return nil }
                defer { node += Int(document.nodes[node].span) }
                return JSONValue(document: document, node: node)
            }
        }

        public func makeIterator() -> Iterator { Iterator(value) }

        /// Returns the results of `transform` for all elements; nil if one of the results is nil.
        package func mapAll<Result>(_ transform: (JSONValue) -> Result?) -> [Result]? {
            var results: [Result] = []
            for element in self {
                guard let result = transform(element) else { return nil }
                results.append(result)
            }
            return results
        }

        /// The number of elements. Takes constant time.
        public var underestimatedCount: Int {
            value.entry.kind == Node.Kind.array ? Int(value.entry.storedCount) : 0
        }
    }

    /// The members of an object.
    public struct Members: Sequence, Sendable {
        fileprivate let value: JSONValue

        public struct Iterator: IteratorProtocol {
            private let document: Document
            private var cursor: MemberCursor

            fileprivate init(_ value: JSONValue) {
                document = value.document
                cursor = MemberCursor(document, object: value.node)
            }

            public mutating func next() -> (name: String, value: JSONValue)? {
                guard let (name, value) = cursor.next(document) else { return nil }
                let view = JSONValue(document: document, node: value)
                return (view.text(of: name), view)
            }
        }

        public func makeIterator() -> Iterator { Iterator(value) }

        /// The number of members. Takes constant time.
        public var underestimatedCount: Int { value.entry.kind == Node.Kind.object ? value.count : 0 }
    }
}

/// Iterates over the distinct members of an object on the tape.
struct MemberCursor {
    private var node: Int
    private let end: Int

    /// Starts at the first member, or at the end if `object` is not an object.
    @inline(__always)
    init(_ document: Document, object: Int) {
        let entry = document.nodes[object]
        node = object + 1
        end =
            entry.kind == Node.Kind.object
            ? object + Int(entry.span) - (entry.has(Node.Flag.indexed) ? 1 : 0) : node
    }

    /// The name node of the next member, and the node of its value, which is the last one if the name is duplicated;
    /// nil at the end.
    @inline(__always)
    mutating func next(_ document: Document) -> (name: Int, value: Int)? {
        let nodes = document.nodes
        while node < end {
            let name = node
            node += 1 + Int(nodes[name + 1].span)
            if !nodes[name].has(Node.Flag.later) { return (name, Names.winner(nodes, name) + 1) }
        }
        return nil
    }
}
