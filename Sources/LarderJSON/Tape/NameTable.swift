/// The hash table of an object with many members. It uses open addressing and ``KeyedHash``, so that clients cannot
/// choose names that collide.
///
/// The table is built when the object ends, so that reading it needs no lock. A `table` node at the end of the object
/// stores the position of the slots. A slot contains the distance from the object's node to a name node. An empty slot
/// contains 0.
enum NameTable {
    /// Appends the table of an object whose members are all on the tape, marks the object as `indexed`, and resolves
    /// duplicates. Returns the number of distinct names.
    static func build(_ document: Document, object: Int, members: Int) -> UInt32 {
        var capacity = 64
        while capacity < members + members / 2 { capacity *= 2 }
        let start = document.appendSlots(capacity)
        let end = document.storage.pointee.nodeCount
        document.reserveNodes(end + 1)

        let nodes = document.storage.pointee.nodes
        let text = document.text
        guard let allSlots = document.storage.pointee.slots else { return 0 }
        let slots = allSlots + start
        let mask = capacity - 1
        let hash = KeyedHash.process
        var distinct: UInt32 = 0
        var name = object + 1
        var nextCheck = name + Document.nodesPerCheck
        while name < end {
            if name > nextCheck {
                document.checkCancellation()
                // The text of the names is gone.
                if document.storage.pointee.isCancelled { return distinct }
                nextCheck = name + Document.nodesPerCheck
            }
            let next = name + 1 + Int(nodes[name + 1].span)
            if !nodes[name].has(Node.Flag.later) {
                var slot = Int(truncatingIfNeeded: Names.withBytes(nodes[name], text: text) { hash($0) }) & mask
                while true {
                    let found = object + Int(slots[slot])
                    if found == object {
                        slots[slot] = UInt32(truncatingIfNeeded: name - object)
                        distinct += 1
                        break
                    }
                    if isSame(nodes, found, name, text: text) {
                        Names.redirect(nodes, from: found, to: name)
                        break
                    }
                    slot = (slot + 1) & mask
                }
            }
            name = next
        }
        nodes[end] = Node(
            offset: UInt32(truncatingIfNeeded: start), length: UInt32(truncatingIfNeeded: capacity), span: distinct,
            info: Node.Kind.table)
        nodes[object].info |= Node.Flag.indexed
        document.storage.pointee.nodeCount = end + 1
        return distinct
    }

    /// The first name node with the given name, in a complete object that has a table.
    static func find(
        _ document: UnsafePointer<Document.Storage>, object: Int, _ name: UnsafeRawBufferPointer
    ) -> Int? {
        let nodes = UnsafePointer(document.pointee.nodes)
        let table = nodes[object + Int(nodes[object].span) - 1]
        guard let allSlots = document.pointee.slots else { return nil }
        let slots = allSlots + Int(table.offset)
        let mask = Int(table.length) - 1
        let quick = NameHash.exact(name)
        var slot = Int(truncatingIfNeeded: KeyedHash.process(name)) & mask
        while slots[slot] != 0 {
            let found = object + Int(slots[slot])
            if nodes[found].has(Node.Flag.redirected) || nodes[found].span == quick,
                Names.matches(nodes[found], text: document.pointee.text, name)
            {
                return found
            }
            slot = (slot + 1) & mask
        }
        return nil
    }

    private static func isSame(
        _ nodes: UnsafeMutablePointer<Node>, _ found: Int, _ name: Int, text: UnsafePointer<UInt8>
    ) -> Bool {
        // A redirected name node has a distance in `span` instead of its hash, so the hashes cannot be compared.
        let isRedirected = (nodes[found].info | nodes[name].info) & Node.Flag.redirected != 0
        guard isRedirected || nodes[found].span == nodes[name].span else { return false }
        return Names.equal(nodes[found], text, nodes[name], text)
    }
}
