import Glibc

/// A value that is kept as compact text, to compare it with other values. It takes only the memory of its text. The
/// tape of a parsed value takes up to eight times as much in addition.
package struct JSONText: Sendable {
    /// The compact text, without whitespace between tokens and without duplicate members.
    private let text: [UInt8]
    /// Whether a string or name in the text has an escape.
    private let hasEscapes: Bool

    package init(_ value: JSONValue) {
        text = value.compactBytes
        hasEscapes = text.contains(UInt8(ascii: "\\"))
    }

    /// The length of the text in bytes.
    package var count: Int { text.count }

    /// Whether this value and `value` are equal, as `==` of ``JSONValue`` defines it. The comparison ends at the first
    /// difference.
    package func isEqual(to value: JSONValue) -> Bool {
        text.withUnsafeBufferPointer { text in
            guard let start = text.baseAddress else { return false }
            var comparison = TextComparison(start, text.count, hasEscapes: hasEscapes, with: value.document)
            return comparison.isEqual(to: value.node)
        }
    }
}

/// Compares a compact text with a value on a tape, token by token. There is no recursion, so deep nesting cannot exhaust
/// the stack.
private struct TextComparison {
    /// A container of the value, which was begun in the text.
    private struct Container {
        let node: Int
        /// The node of the next element. Used for arrays only.
        var element: Int
        /// The next members. Used for objects only.
        var members: MemberCursor
        /// The number of members in the text so far. Used for objects only.
        var count = 0
    }

    private let text: UnsafePointer<UInt8>
    private let count: Int
    private let hasEscapes: Bool
    private let document: Document
    /// The offset in the text of the next token.
    private var offset = 0
    private var open: [Container] = []

    init(_ text: UnsafePointer<UInt8>, _ count: Int, hasEscapes: Bool, with document: Document) {
        (self.text, self.count, self.hasEscapes, self.document) = (text, count, hasEscapes, document)
    }

    mutating func isEqual(to root: Int) -> Bool {
        var node = root
        while skipToken(equalTo: node), endContainers() {
            if open.isEmpty { return true }
            guard let next = nextNode() else { return false }
            node = next
        }
        return false
    }

    /// Skips a scalar, or the opening bracket of a container.
    /// - Returns: false if the scalar differs from that of the node, or if the node is of another kind
    private mutating func skipToken(equalTo node: Int) -> Bool {
        let entry = document.nodes[node]
        switch entry.kind {
        case Node.Kind.array, Node.Kind.object:
            let bracket = entry.kind == Node.Kind.array ? UInt8(ascii: "[") : UInt8(ascii: "{")
            guard text[offset] == bracket else { return false }
            offset += 1
            open.append(Container(node: node, element: node + 1, members: MemberCursor(document, object: node)))
            return true
        case Node.Kind.string where hasEscapes || entry.has(Node.Flag.escaped):
            guard text[offset] == UInt8(ascii: "\"") else { return false }
            return Names.equal(takeString(), text, entry, document.text)
        default:
            let length = Int(entry.length)
            guard count - offset >= length, memcmp(text + offset, document.text + Int(entry.offset), length) == 0
            else { return false }
            offset += length
            // The token is longer if it is a number that only begins with the other one.
            return offset == count || Self.delimiters.contains(text[offset])
        }
    }

    private static let delimiters = [UInt8(ascii: ","), UInt8(ascii: "]"), UInt8(ascii: "}")]

    /// Ends the containers whose closing brackets are next, and skips the comma after them.
    /// - Returns: false if a container of the value has more elements or members
    private mutating func endContainers() -> Bool {
        while let last = open.last {
            switch text[offset] {
            case UInt8(ascii: "]"):
                guard last.element == last.node + Int(document.nodes[last.node].span) else { return false }
            case UInt8(ascii: "}"):
                guard last.count == JSONValue(document: document, node: last.node).count else { return false }
            case UInt8(ascii: ","):
                offset += 1
                return true
            default: return true
            }
            open.removeLast()
            offset += 1
        }
        return true
    }

    /// The node of the value to compare with the next value of the text. Skips the name of a member.
    /// - Returns: nil if the innermost container of the value has no further element, or no member with the name
    private mutating func nextNode() -> Int? {
        let last = open.count - 1
        let container = open[last]
        if document.nodes[container.node].kind == Node.Kind.array {
            guard container.element < container.node + Int(document.nodes[container.node].span) else { return nil }
            open[last].element += Int(document.nodes[container.element].span)
            return container.element
        }
        let name = takeString()
        offset += 1
        open[last].count += 1
        // The members usually have the same order in both objects.
        if let (other, value) = open[last].members.next(document),
            Names.equal(name, text, document.nodes[other], document.text)
        {
            return value
        }
        return Names.withBytes(name, text: text) { Names.find(document.storage, object: container.node, $0) }
    }

    /// Skips a string or name.
    /// - Returns: a node for it
    private mutating func takeString() -> Node {
        let start = offset
        var isEscaped = false
        offset += 1
        while text[offset] != UInt8(ascii: "\"") {
            if text[offset] == UInt8(ascii: "\\") {
                isEscaped = true
                offset += 1
            }
            offset += 1
        }
        offset += 1
        return Node(
            offset: UInt32(truncatingIfNeeded: start), length: UInt32(truncatingIfNeeded: offset - start), span: 1,
            info: Node.Kind.string | (isEscaped ? Node.Flag.escaped : 0))
    }
}
