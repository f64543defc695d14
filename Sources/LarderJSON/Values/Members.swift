extension JSONValue {
    /// The elements of an array, in order; empty for every other kind.
    public var elements: Elements { Elements(value: self) }

    /// The members of an object, each name once, in the order of first appearance and with its last value; empty for
    /// every other kind.
    public var members: Members { Members(value: self) }

    /// The elements of an array.
    public struct Elements: Sequence, Sendable {
        fileprivate let value: JSONValue

        /// Steps from element to element.
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

            /// The next element, or nil after the last.
            public mutating func next() -> JSONValue? {
                guard node < end else { return nil }
                defer { node += Int(document.nodes[node].span) }
                return JSONValue(document: document, node: node)
            }
        }

        /// An iterator at the first element.
        public func makeIterator() -> Iterator { Iterator(value) }

        /// The number of elements, known without visiting them all in most arrays.
        public var underestimatedCount: Int {
            value.entry.kind == Node.Kind.array ? Int(value.entry.storedCount) : 0
        }
    }

    /// The members of an object.
    public struct Members: Sequence, Sendable {
        fileprivate let value: JSONValue

        /// Steps from member to member.
        public struct Iterator: IteratorProtocol {
            private let document: Document
            private var cursor: MemberCursor

            fileprivate init(_ value: JSONValue) {
                document = value.document
                cursor = MemberCursor(document, object: value.node)
            }

            /// The next member, or nil after the last.
            public mutating func next() -> (name: String, value: JSONValue)? {
                guard let (name, value) = cursor.next(document) else { return nil }
                let view = JSONValue(document: document, node: value)
                return (view.text(of: name), view)
            }
        }

        /// An iterator at the first member.
        public func makeIterator() -> Iterator { Iterator(value) }

        /// The number of members, known without visiting them all.
        public var underestimatedCount: Int { value.entry.kind == Node.Kind.object ? value.count : 0 }
    }
}

/// Walks the distinct members of an object on the tape.
struct MemberCursor {
    private var node: Int
    private let end: Int

    /// At the first member; at the end if `object` is none.
    @inline(__always)
    init(_ document: Document, object: Int) {
        let entry = document.nodes[object]
        node = object + 1
        end =
            entry.kind == Node.Kind.object
            ? object + Int(entry.span) - (entry.has(Node.Flag.indexed) ? 1 : 0) : node
    }

    /// The name node of the next member and the node of the value that counts.
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
