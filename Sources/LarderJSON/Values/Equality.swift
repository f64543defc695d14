import Glibc

extension JSONValue: Equatable {
    /// Whether two values are equal. The order of members does not count. Strings are compared as UTF-8 with escapes
    /// resolved, without Unicode normalization. Numbers are compared as text, so `1` differs from `1.0`.
    public static func == (left: JSONValue, right: JSONValue) -> Bool {
        if left.document === right.document && left.node == right.node { return true }
        return Comparison.equal(left.document, left.node, right.document, right.node)
    }
}

extension JSONValue {
    /// Whether the value is a whole document.
    package var isWholeDocument: Bool { node == 0 }

    /// Whether both values are the same whole document in memory.
    package func isSameDocument(as other: JSONValue) -> Bool {
        document === other.document && isWholeDocument && other.isWholeDocument
    }

    /// Whether the texts of two values are equal byte for byte, including member order, spelling and whitespace.
    package func hasSameText(as other: JSONValue) -> Bool {
        withTextBytes { text in
            other.withTextBytes { otherText in
                guard text.count == otherText.count, let start = text.baseAddress,
                    let otherStart = otherText.baseAddress
                else { return text.count == otherText.count }
                return memcmp(start, otherStart, text.count) == 0
            }
        }
    }
}

/// Compares structure without recursion, so that deep nesting cannot exhaust the stack.
enum Comparison {
    /// Subtrees of up to this many bytes are compared as bytes first. Larger subtrees are compared as bytes only at the
    /// root, because doing so at each level would take time proportional to size times depth.
    private static let bytewise = 256

    static func equal(_ left: Document, _ leftRoot: Int, _ right: Document, _ rightRoot: Int) -> Bool {
        if sameBytes(left, left.nodes[leftRoot], right, right.nodes[rightRoot]) { return true }
        var pending = [(leftRoot, rightRoot)]
        while let (leftNode, rightNode) = pending.popLast() {
            let a = left.nodes[leftNode]
            let b = right.nodes[rightNode]
            guard a.kind == b.kind else { return false }
            if Int(a.length) <= bytewise, sameBytes(left, a, right, b) { continue }
            switch a.kind {
            case Node.Kind.string:
                // The bytes of strings of at most `bytewise` bytes were compared above, and they differ. If neither
                // string has escapes, the strings therefore differ.
                guard a.has(Node.Flag.escaped) || b.has(Node.Flag.escaped) || Int(a.length) > bytewise,
                    Names.equal(a, left.text, b, right.text)
                else { return false }
            case Node.Kind.number:
                guard Int(a.length) > bytewise, sameBytes(left, a, right, b) else { return false }
            case Node.Kind.array:
                guard pushElements(left, leftNode, right, rightNode, &pending) else { return false }
            case Node.Kind.object:
                guard pushMembers(left, leftNode, right, rightNode, &pending) else { return false }
            default: return false
            }
        }
        return true
    }

    private static func sameBytes(_ left: Document, _ a: Node, _ right: Document, _ b: Node) -> Bool {
        a.length == b.length
            && memcmp(left.text + Int(a.offset), right.text + Int(b.offset), Int(a.length)) == 0
    }

    private static func pushElements(
        _ left: Document, _ leftArray: Int, _ right: Document, _ rightArray: Int, _ pending: inout [(Int, Int)]
    ) -> Bool {
        guard left.nodes[leftArray].storedCount == right.nodes[rightArray].storedCount else { return false }
        var a = leftArray + 1
        var b = rightArray + 1
        let aEnd = leftArray + Int(left.nodes[leftArray].span)
        let bEnd = rightArray + Int(right.nodes[rightArray].span)
        while a < aEnd, b < bEnd {
            pending.append((a, b))
            a += Int(left.nodes[a].span)
            b += Int(right.nodes[b].span)
        }
        return a == aEnd && b == bEnd
    }

    private static func pushMembers(
        _ left: Document, _ leftObject: Int, _ right: Document, _ rightObject: Int, _ pending: inout [(Int, Int)]
    ) -> Bool {
        guard
            JSONValue(document: left, node: leftObject).count == JSONValue(document: right, node: rightObject).count
        else { return false }
        var leftCursor = MemberCursor(left, object: leftObject)
        var rightCursor = MemberCursor(right, object: rightObject)
        while let (name, value) = leftCursor.next(left) {
            // The members usually have the same order in both objects. Comparing the next names then saves a search by
            // name.
            if let (otherName, otherValue) = rightCursor.next(right),
                Names.equal(left.nodes[name], left.text, right.nodes[otherName], right.text)
            {
                pending.append((value, otherValue))
                continue
            }
            let found = Names.withBytes(left.nodes[name], text: left.text) {
                Names.find(right.storage, object: rightObject, $0)
            }
            guard let found else { return false }
            pending.append((value, found))
        }
        return true
    }
}
