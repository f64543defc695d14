/// Writes the compact text of a subtree. Parts that are compact already are copied in one piece; other parts are
/// written token by token.
enum CompactCopy {
    static func append(_ value: JSONValue, to bytes: inout [UInt8]) {
        let document = value.document
        let nodes = document.nodes
        let text = document.text
        if value.entry.has(Node.Flag.clean) {
            bytes.append(contentsOf: UnsafeBufferPointer(start: value.textStart, count: Int(value.entry.length)))
            return
        }
        // One entry for each open container. There is no recursion, so deep nesting cannot exhaust the stack.
        var open: [Open] = []
        open.append(Open(document, value.node, &bytes))
        while let last = open.indices.last {
            let isObject = open[last].isObject
            let node: Int
            if isObject {
                guard let (name, value) = open[last].members.next(document) else {
                    bytes.append(UInt8(ascii: "}"))
                    open.removeLast()
                    continue
                }
                if !open[last].isFirst { bytes.append(UInt8(ascii: ",")) }
                let entry = nodes[name]
                bytes.append(contentsOf: UnsafeBufferPointer(start: text + Int(entry.offset), count: Int(entry.length)))
                bytes.append(UInt8(ascii: ":"))
                node = value
            } else {
                node = open[last].element
                guard node < open[last].end else {
                    bytes.append(UInt8(ascii: "]"))
                    open.removeLast()
                    continue
                }
                open[last].element += Int(nodes[node].span)
                if !open[last].isFirst { bytes.append(UInt8(ascii: ",")) }
            }
            open[last].isFirst = false
            let entry = nodes[node]
            if entry.has(Node.Flag.clean) {
                bytes.append(contentsOf: UnsafeBufferPointer(start: text + Int(entry.offset), count: Int(entry.length)))
            } else {
                open.append(Open(document, node, &bytes))
            }
        }
    }

    private struct Open {
        let isObject: Bool
        var members: MemberCursor
        var element: Int
        let end: Int
        var isFirst = true

        init(_ document: Document, _ node: Int, _ bytes: inout [UInt8]) {
            let entry = document.nodes[node]
            isObject = entry.kind == Node.Kind.object
            members = MemberCursor(document, object: node)
            element = node + 1
            end = node + Int(entry.span)
            bytes.append(isObject ? UInt8(ascii: "{") : UInt8(ascii: "["))
        }
    }
}
