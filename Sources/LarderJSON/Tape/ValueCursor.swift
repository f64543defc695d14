/// A value or member name of a document, for code that visits many values.
///
/// Unlike a ``JSONValue``, a cursor does not keep the document in memory, so copying a cursor costs no reference
/// counting. It must not be used after the call of ``JSONValue/withCursor(_:)`` that created it has returned.
///
/// Only `LarderSchema` uses this type. It is not `package`, because the compiler inlines only public code into other
/// modules. Without inlining, validation takes twice as long.
@_spi(LarderSchema) public struct ValueCursor {
    @usableFromInline let text: UnsafePointer<UInt8>
    @usableFromInline let node: UnsafePointer<Node>

    @inlinable @inline(__always)
    init(text: UnsafePointer<UInt8>, node: UnsafePointer<Node>) {
        self.text = text
        self.node = node
    }

    /// The kind as the raw value of ``JSONValue/Kind``. Must not be called for names.
    @inlinable @inline(__always)
    public var rawKind: UInt8 { UInt8(truncatingIfNeeded: node.pointee.kind) }

    /// Whether a boolean is `true`. For other kinds, the result has no meaning.
    @inlinable @inline(__always)
    public var isTrue: Bool { node.pointee.has(Node.Flag.isTrue) }

    /// The number of nodes in the document for the value and all values and names in it.
    @inlinable @inline(__always)
    public var span: Int { Int(node.pointee.span) }

    /// The address of the value, which differs for each value of a document.
    @inlinable @inline(__always)
    public var identity: UnsafeRawPointer { UnsafeRawPointer(node) }

    /// The number of elements of an array, or of members with distinct names of an object.
    @inlinable @inline(__always)
    public var count: Int {
        let stored = Int(node.pointee.storedCount)
        return stored == 0xFF_FFFF ? largeCount() : stored
    }

    @usableFromInline
    func largeCount() -> Int {
        var count = 0
        if rawKind == JSONValue.Kind.object.rawValue {
            var members = members
            while members.next() != nil { count += 1 }
        } else {
            var elements = elements
            while elements.next() != nil { count += 1 }
        }
        return count
    }

    /// The text of the value as it was parsed.
    @inlinable @inline(__always)
    public var source: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: text + Int(node.pointee.offset), count: Int(node.pointee.length))
    }

    /// The bytes between the quotation marks of a string or name; nil if they contain escapes.
    @inlinable @inline(__always)
    public var plainString: UnsafeBufferPointer<UInt8>? {
        guard !node.pointee.has(Node.Flag.escaped) else { return nil }
        return UnsafeBufferPointer(start: text + Int(node.pointee.offset) + 1, count: Int(node.pointee.length) - 2)
    }

    /// Calls `body` with the content of a string or name, with escapes resolved.
    @inlinable @inline(__always)
    public func withString<R>(_ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        if let plainString { return body(plainString) }
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Int(node.pointee.length)) { buffer in
            body(UnsafeBufferPointer(rebasing: buffer[..<decode(into: buffer)]))
        }
    }

    /// Writes the content of a string or name that has escapes to a buffer, with the escapes resolved. Returns the
    /// number of bytes written.
    @usableFromInline
    func decode(into buffer: UnsafeMutableBufferPointer<UInt8>) -> Int {
        Names.withBytes(node.pointee, text: text) { bytes in
            UnsafeMutableRawBufferPointer(buffer).copyMemory(from: bytes)
            return bytes.count
        }
    }

    /// The string or name with escapes resolved.
    public var string: String { withString { String(checked: UnsafeRawBufferPointer($0)) } }

    /// The hash of a member name, as ``hash(ofName:)`` computes it. The parser has stored it in the document. It is
    /// computed only for a name that occurs again later in the object.
    @inlinable @inline(__always)
    public var nameHash: UInt32 { node.pointee.has(Node.Flag.redirected) ? computeNameHash() : node.pointee.span }

    @usableFromInline
    func computeNameHash() -> UInt32 { withString { NameHash.exact(UnsafeRawBufferPointer($0)) } }

    /// The hash of a name in UTF-8. It does not resist deliberate collisions.
    public static func hash(ofName name: UnsafeRawBufferPointer) -> UInt32 { NameHash.exact(name) }

    /// Returns the member of an object that has a name in UTF-8; nil if there is none. Must not be called for a value
    /// that is not an object. Takes time proportional to the number of members.
    public func member(_ name: UnsafeBufferPointer<UInt8>) -> (name: ValueCursor, value: ValueCursor)? {
        let hash = NameHash.exact(UnsafeRawBufferPointer(name))
        var members = members
        while let member = members.next() {
            if member.name.nameHash == hash, member.name.withString({ $0.elementsEqual(name) }) { return member }
        }
        return nil
    }

    /// The elements of an array, in order. Must not be called for a value that is not an array.
    @inlinable @inline(__always)
    public var elements: Elements { Elements(text: text, node: node + 1, end: node + Int(node.pointee.span)) }

    public struct Elements: IteratorProtocol {
        @usableFromInline let text: UnsafePointer<UInt8>
        @usableFromInline var node: UnsafePointer<Node>
        @usableFromInline let end: UnsafePointer<Node>

        @inlinable @inline(__always)
        init(text: UnsafePointer<UInt8>, node: UnsafePointer<Node>, end: UnsafePointer<Node>) {
            self.text = text
            self.node = node
            self.end = end
        }

        @inlinable @inline(__always)
        public mutating func next() -> ValueCursor? {
            guard node < end else { return nil }
            defer { node += Int(node.pointee.span) }
            return ValueCursor(text: text, node: node)
        }
    }

    /// The members of an object, each name once and with its last value. Must not be called for a value that is not an
    /// object.
    @inlinable @inline(__always)
    public var members: Members {
        let end = node + Int(node.pointee.span) - (node.pointee.has(Node.Flag.indexed) ? 1 : 0)
        return Members(text: text, node: node + 1, end: end)
    }

    public struct Members: IteratorProtocol {
        @usableFromInline let text: UnsafePointer<UInt8>
        @usableFromInline var node: UnsafePointer<Node>
        @usableFromInline let end: UnsafePointer<Node>

        @inlinable @inline(__always)
        init(text: UnsafePointer<UInt8>, node: UnsafePointer<Node>, end: UnsafePointer<Node>) {
            self.text = text
            self.node = node
            self.end = end
        }

        @inlinable @inline(__always)
        public mutating func next() -> (name: ValueCursor, value: ValueCursor)? {
            while node < end {
                let name = node
                node += 1 + Int(node[1].span)
                guard !name.pointee.has(Node.Flag.later) else { continue }
                let winner = name.pointee.has(Node.Flag.redirected) ? name + Int(name.pointee.span) : name
                return (ValueCursor(text: text, node: name), ValueCursor(text: text, node: winner + 1))
            }
            return nil
        }
    }
}

extension JSONValue {
    /// Calls `body` with a cursor at this value.
    @_spi(LarderSchema) public func withCursor<R>(_ body: (ValueCursor) -> R) -> R {
        withExtendedLifetime(document) { body(ValueCursor(text: document.text, node: document.nodes + node)) }
    }

    /// Returns the value at a cursor, which must point into the document of this value.
    @_spi(LarderSchema) public func value(at cursor: ValueCursor) -> JSONValue {
        JSONValue(document: document, node: cursor.node - document.nodes)
    }
}
