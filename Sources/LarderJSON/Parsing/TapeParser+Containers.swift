/// Writing the tape, and arrays and objects from one bracket to the other.
extension TapeParser {
    /// Makes sure that `count` nodes can be written.
    @inline(always)
    mutating func reserve(_ count: Int) {
        guard used + count > capacity else { return }
        document.growNodes(used + count)
        nodes = document.storage.pointee.nodes
        capacity = document.storage.pointee.nodeCapacity
    }

    /// Writes the node of a scalar that ends here.
    @inline(always)
    mutating func append(_ start: UnsafePointer<UInt8>, _ info: UInt32) {
        nodes[used] = Node(
            offset: UInt32(truncatingIfNeeded: offset(start)), length: UInt32(truncatingIfNeeded: cursor - start),
            span: 1, info: info | Node.Flag.clean)
        used += 1
    }

    @inline(always)
    mutating func open(_ kind: UInt32, closing: UInt8) -> Step {
        let start = offset(cursor)
        guard depth < maximumDepth else {
            fail(.tooDeep)
            return .failed
        }
        cursor += 1
        skipWhitespace()
        var node = Node(offset: UInt32(truncatingIfNeeded: start), length: 0, span: 1, info: kind)
        if cursor.pointee == closing {
            cursor += 1
            node.length = UInt32(truncatingIfNeeded: offset(cursor) - start)
            if lastUnclean < start { node.info |= Node.Flag.clean }
            nodes[used] = node
            used += 1
            return .value
        }
        if depth == frameCapacity {
            frames = document.growFrames()
            frameCapacity = document.storage.pointee.frameCapacity
        }
        frames?[depth] = container
        depth += 1
        container = Frame(node: UInt32(truncatingIfNeeded: used), count: 0, bloom: 0)
        isInObject = kind == Node.Kind.object
        nodes[used] = node
        used += 1
        return .opened
    }

    /// After a value: goes on in the innermost container, or closes it and goes on in the one around it. False at the
    /// end of the document and on failure.
    @inline(always)
    mutating func goOn() -> Bool {
        while depth > 0 {
            skipWhitespace()
            if cursor.pointee == UInt8(ascii: ",") {
                cursor += 1
                return true
            }
            guard cursor.pointee == (isInObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else {
                fail(isInObject ? .expectedCommaInObject : .expectedCommaInArray)
                return false
            }
            cursor += 1
            close()
        }
        cursor = Whitespace.end(cursor)
        if cursor != end { fail(.trailingBytes) }
        return false
    }

    @inline(always)
    mutating func close() {
        let node = Int(container.node)
        let start = Int(nodes[node].offset)
        nodes[node].length = UInt32(truncatingIfNeeded: offset(cursor) - start)
        if isInObject, container.count > TapeParser.smallObject || nodes[node].has(Node.Flag.duplicates) {
            document.storage.pointee.nodeCount = used
            let members = Names.close(document, object: node, members: container.count)
            if members != container.count { lastUnclean = offset(cursor) - 1 }
            container.count = members
            nodes = document.storage.pointee.nodes
            capacity = document.storage.pointee.nodeCapacity
            used = document.storage.pointee.nodeCount
        }
        var info = nodes[node].info | min(container.count, Node.maximumCount) &<< 8
        if lastUnclean < start { info |= Node.Flag.clean }
        if lastNull >= start { info |= Node.Flag.nullMembers }
        nodes[node].info = info
        nodes[node].span = UInt32(truncatingIfNeeded: used - node)

        depth -= 1
        if let frames { container = frames[depth] }
        isInObject = depth > 0 && nodes[Int(container.node)].kind == Node.Kind.object
    }
}
