extension JSONValue {
    /// Returns the document with the values that another document has at some paths. A member that the other document
    /// lacks is removed, and a member that this document lacks is appended to its object. Text, tape and name tables are
    /// copied in blocks, so this takes a fraction of the time of a merge.
    ///
    /// - Parameters:
    ///   - paths: the names that lead to the members, outermost first. No path begins with another one. Members are
    ///     appended in the order of their paths.
    ///   - moved: the indexes in `paths` of the members that are removed and appended, even if both documents have them
    ///   - source: the other document, compact
    /// - Returns: nil if the object that contains a member does not exist, if an object needs a larger name table, if too
    ///   much memory of former tables is unused, or if this value is not a whole, compact document whose root is an object
    package func replacingMembers(
        at paths: [[String]], moving moved: Set<Int> = [], from source: JSONValue
    ) -> JSONValue? {
        guard node == 0, entry.has(Node.Flag.clean), entry.kind == Node.Kind.object, source.entry.has(Node.Flag.clean),
            var splice = TapeSplice(paths, moving: moved, of: document, from: source)
        else { return nil }
        return splice.apply()
    }
}

/// Copies a document with some members replaced, removed or appended.
private struct TapeSplice {
    private enum Kind { case replacement, removal, addition }

    private struct Edit {
        let kind: Kind
        /// The containers of the member, outermost first.
        let containers: [Int]
        /// The value in the source. Not used for a removal.
        let value: Int
        /// The parts of the old text and tape that are left out. They are empty for an addition.
        var text: Range<Int>
        var nodes: Range<Int>
        /// Whether a comma precedes an added member.
        var hasComma = false
        /// The name node of an added member in the new document.
        var name = 0

        var object: Int { containers[containers.count - 1] }
    }

    /// How the number of members of an object changes.
    private struct Counts {
        var removed = 0
        var added = 0
    }

    private let old: Document
    private let source: JSONValue
    private let new: Document
    /// In the order of the tape, which is the order of the text.
    private var edits: [Edit] = []
    private var counts: [Int: Counts] = [:]
    /// For each edit, the number of nodes by which it and all edits before it shift the nodes after it.
    private var shifts: [Int] = []
    /// The ends of the old text and tape that are copied.
    private var textEnd = 0
    private var nodeEnd = 0

    init?(_ paths: [[String]], moving moved: Set<Int>, of old: Document, from source: JSONValue) {
        // Slots of members that are left out stay. Objects have at most 1.5 slots for each node, so that another copy of
        // the document has less memory.
        if old.storage.pointee.slotCount > 2 * old.storage.pointee.nodeCount + 4096 { return nil }
        (self.old, self.source) = (old, source)
        var edits: [Edit] = []
        var counts: [Int: Counts] = [:]
        edits.reserveCapacity(paths.count)
        for (index, path) in paths.enumerated() {
            guard let name = path.last else { return nil }
            var (containers, value, node) = ([0], Int?(source.node), 0)
            for name in path.dropLast() {
                guard let next = Self.member(name, of: node, in: old), old.nodes[next].kind == Node.Kind.object else {
                    return nil
                }
                value = value.flatMap { Self.member(name, of: $0, in: source.document) }
                containers.append(next)
                node = next
            }
            value = value.flatMap { Self.member(name, of: $0, in: source.document) }
            let before = Self.member(name, of: node, in: old)
            if let before, let value, !moved.contains(index) {
                edits.append(
                    Edit(
                        kind: .replacement, containers: containers, value: value, text: Self.text(of: before, in: old),
                        nodes: before..<before + Int(old.nodes[before].span)))
                continue
            }
            if let before {
                // Without duplicate members, the node of a name is directly before the node of its value.
                let text = Int(old.nodes[before - 1].offset)..<Self.text(of: before, in: old).upperBound
                edits.append(
                    Edit(
                        kind: .removal, containers: containers, value: 0, text: text,
                        nodes: before - 1..<before + Int(old.nodes[before].span)))
                counts[node, default: Counts()].removed += 1
            }
            if let value {
                let entry = old.nodes[node]
                let text = Self.text(of: node, in: old).upperBound - 1
                let end = node + Int(entry.span) - (entry.has(Node.Flag.indexed) ? 1 : 0)
                edits.append(
                    Edit(kind: .addition, containers: containers, value: value, text: text..<text, nodes: end..<end))
                counts[node, default: Counts()].added += 1
            }
        }
        guard counts.allSatisfy({ Self.hasRoom(for: $1, in: old, object: $0) }) else { return nil }
        edits = edits.enumerated().sorted {
            ($0.element.text.lowerBound, $0.offset) < ($1.element.text.lowerBound, $1.offset)
        }.map(\.element)
        Self.placeCommas(&edits, counts, old)
        var (text, nodes) = (old.storage.pointee.textCount, old.storage.pointee.nodeCount)
        for edit in edits {
            let growth = Self.growth(of: edit, from: source.document)
            (text, nodes) = (text + growth.text, nodes + growth.nodes)
            shifts.append(nodes - old.storage.pointee.nodeCount)
        }
        guard text <= Document.maxTextCount else { return nil }
        (self.edits, self.counts) = (edits, counts)
        new = Document(textCapacity: text, nodeCapacity: nodes)
    }

    private static func member(_ name: String, of object: Int, in document: Document) -> Int? {
        var name = name
        return name.withUTF8 { Names.find(document.storage, object: object, UnsafeRawBufferPointer($0)) }
    }

    private static func text(of node: Int, in document: Document) -> Range<Int> {
        let entry = document.nodes[node]
        return Int(entry.offset)..<Int(entry.offset) + Int(entry.length)
    }

    /// Whether the node and the name table of an object can represent another number of members.
    private static func hasRoom(for counts: Counts, in document: Document, object: Int) -> Bool {
        let entry = document.nodes[object]
        guard entry.storedCount < Node.maxCount else { return false }
        let members = Int(entry.storedCount) + counts.added
        guard entry.has(Node.Flag.indexed) else { return members <= Int(NameTable.smallObject) }
        // The table is at most as full as one that is built for the object.
        let capacity = Int(document.nodes[object + Int(entry.span) - 1].length)
        return members < Int(Node.maxCount) && capacity >= members + members / 2
    }

    /// Extends removals by the comma before or after the member, and determines which added members follow a comma.
    private static func placeCommas(_ edits: inout [Edit], _ counts: [Int: Counts], _ old: Document) {
        // The end of the text of the first members of an object, if these are removed. The comma after each of them is
        // removed, because there is no comma before them.
        var leadingEnd = -1
        var added: [Int: Int] = [:]
        for index in edits.indices {
            let text = edits[index].text
            switch edits[index].kind {
            case .replacement: break
            case .removal:
                if old.text[text.lowerBound - 1] == UInt8(ascii: "{") || text.lowerBound == leadingEnd {
                    leadingEnd = text.upperBound + (old.text[text.upperBound] == UInt8(ascii: ",") ? 1 : 0)
                    edits[index].text = text.lowerBound..<leadingEnd
                } else {
                    edits[index].text = text.lowerBound - 1..<text.upperBound
                }
            case .addition:
                let object = edits[index].object
                let rest = Int(old.nodes[object].storedCount) - (counts[object]?.removed ?? 0)
                edits[index].hasComma = rest + added[object, default: 0] > 0
                added[object, default: 0] += 1
            }
        }
    }

    /// The numbers of bytes and nodes by which an edit extends the document.
    private static func growth(of edit: Edit, from source: Document) -> (text: Int, nodes: Int) {
        var (text, nodes) = (-edit.text.count, -edit.nodes.count)
        if edit.kind == .removal { return (text, nodes) }
        text += Int(source.nodes[edit.value].length)
        nodes += Int(source.nodes[edit.value].span)
        if edit.kind == .addition {
            text += Int(source.nodes[edit.value - 1].length) + 1 + (edit.hasComma ? 1 : 0)
            nodes += 1
        }
        return (text, nodes)
    }

    // MARK: Copying

    mutating func apply() -> JSONValue {
        if let slots = old.storage.pointee.slots, old.storage.pointee.slotCount > 0 {
            // The tables keep their places, so the old table nodes stay valid.
            let first = new.appendSlots(old.storage.pointee.slotCount)
            if let output = new.storage.pointee.slots {
                (output + first).update(from: slots, count: old.storage.pointee.slotCount)
            }
        }
        for index in edits.indices {
            let edit = edits[index]
            copy(upTo: edit.text.lowerBound, edit.nodes.lowerBound)
            switch edit.kind {
            case .removal: break
            case .replacement: copy(edit.value, count: Int(source.document.nodes[edit.value].span))
            case .addition:
                if edit.hasComma { byte(UInt8(ascii: ",")) }
                edits[index].name = new.storage.pointee.nodeCount
                copy(edit.value - 1, count: 1)
                byte(UInt8(ascii: ":"))
                copy(edit.value, count: Int(source.document.nodes[edit.value].span))
            }
            (textEnd, nodeEnd) = (edit.text.upperBound, edit.nodes.upperBound)
        }
        copy(upTo: old.storage.pointee.textCount, old.storage.pointee.nodeCount)
        extendContainers()
        for object in Set(edits.flatMap(\.containers)) where old.nodes[object].has(Node.Flag.indexed) {
            updateTable(of: object)
        }
        new.sealText()
        return JSONValue(document: new, node: 0)
    }

    /// Copies the old text and tape up to these positions.
    private func copy(upTo text: Int, _ node: Int) {
        let (input, output) = (old.storage.pointee, new.storage.pointee)
        (output.text + output.textCount).update(from: input.text + textEnd, count: text - textEnd)
        let first = output.nodes + output.nodeCount
        let shift = UInt32(truncatingIfNeeded: output.textCount - textEnd)
        if shift == 0 {
            first.update(from: input.nodes + nodeEnd, count: node - nodeEnd)
        } else {
            for index in 0..<node - nodeEnd {
                var entry = input.nodes[nodeEnd + index]
                if entry.kind != Node.Kind.table { entry.offset &+= shift }
                first[index] = entry
            }
        }
        new.storage.pointee.textCount += text - textEnd
        new.storage.pointee.nodeCount += node - nodeEnd
    }

    private func byte(_ byte: UInt8) {
        new.storage.pointee.text[new.storage.pointee.textCount] = byte
        new.storage.pointee.textCount += 1
    }

    /// Copies the text of a name or value of the source, and `count` nodes.
    private func copy(_ node: Int, count: Int) {
        let entry = source.document.nodes[node]
        let output = new.storage.pointee
        (output.text + output.textCount).update(
            from: source.document.text + Int(entry.offset), count: Int(entry.length))
        let shift = UInt32(truncatingIfNeeded: output.textCount - Int(entry.offset))
        for index in 0..<count {
            var entry = source.document.nodes[node + index]
            if entry.kind == Node.Kind.table {
                let start = new.appendSlots(Int(entry.length))
                if let input = source.document.storage.pointee.slots, let slots = new.storage.pointee.slots {
                    (slots + start).update(from: input + Int(entry.offset), count: Int(entry.length))
                }
                entry.offset = UInt32(truncatingIfNeeded: start)
            } else {
                entry.offset &+= shift
            }
            output.nodes[output.nodeCount + index] = entry
        }
        new.storage.pointee.textCount += Int(entry.length)
        new.storage.pointee.nodeCount += count
    }

    // MARK: Containers

    /// The number of nodes by which a node of the old tape is shifted. It must not be one that is left out.
    private func shift(of node: Int) -> Int {
        let next = firstEdit { $0.nodes.upperBound > node }
        return next == 0 ? 0 : shifts[next - 1]
    }

    /// The index of the first edit that is behind a place in the document.
    private func firstEdit(_ isBehind: (Edit) -> Bool) -> Int {
        var (low, high) = (0, edits.count)
        while low < high {
            let middle = (low + high) / 2
            if isBehind(edits[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    private func extendContainers() {
        let nodes = new.storage.pointee.nodes
        for edit in edits {
            let growth = Self.growth(of: edit, from: source.document)
            var flags: UInt32 = 0
            if edit.kind != .removal {
                let entry = source.document.nodes[edit.value]
                let hasNulls = entry.kind == Node.Kind.null || entry.has(Node.Flag.nullMembers)
                flags = hasNulls ? Node.Flag.nullMembers : 0
            }
            for container in edit.containers {
                let node = container + shift(of: container)
                nodes[node].length &+= UInt32(truncatingIfNeeded: growth.text)
                nodes[node].span &+= UInt32(truncatingIfNeeded: growth.nodes)
                nodes[node].info |= flags
            }
        }
        for (object, counts) in counts {
            let node = object + shift(of: object)
            let count = Int(nodes[node].storedCount) + counts.added - counts.removed
            nodes[node].info = nodes[node].info & 0xFF | UInt32(truncatingIfNeeded: count) << 8
            if nodes[node].has(Node.Flag.indexed) {
                nodes[node + Int(nodes[node].span) - 1].span = UInt32(truncatingIfNeeded: count)
            }
        }
    }

    // MARK: Name tables

    private func updateTable(of object: Int) {
        let end = object + Int(old.nodes[object].span) - 1
        guard let all = new.storage.pointee.slots else { return }
        let slots = UnsafeMutableBufferPointer(
            start: all + Int(old.nodes[end].offset), count: Int(old.nodes[end].length))
        // A document can have as many objects with tables as edits.
        let inner = edits[firstEdit { $0.nodes.lowerBound > object }..<firstEdit { $0.nodes.lowerBound > end }]
        for edit in inner where edit.kind == .removal && edit.object == object {
            remove(edit.nodes.lowerBound - object, of: object, from: slots)
        }
        shift(slots, of: object, table: end, by: inner.indices)
        let node = object + shift(of: object)
        for edit in inner where edit.kind == .addition && edit.object == object {
            var slot = Self.slot(of: edit.name, in: new, slots.count)
            while slots[slot] != 0 { slot = (slot + 1) & (slots.count - 1) }
            slots[slot] = UInt32(truncatingIfNeeded: edit.name - node)
        }
    }

    /// The slot at which the search for a name begins.
    private static func slot(of name: Int, in document: Document, _ count: Int) -> Int {
        let hash = KeyedHash.process
        return Int(truncatingIfNeeded: Names.withBytes(document.nodes[name], text: document.text) { hash($0) })
            & (count - 1)
    }

    /// Removes the name at a distance from its object. Later names that the removal would hide from a search move to
    /// the empty slot.
    private func remove(_ distance: Int, of object: Int, from slots: UnsafeMutableBufferPointer<UInt32>) {
        let mask = slots.count - 1
        var empty = Self.slot(of: object + distance, in: old, slots.count)
        while slots[empty] != UInt32(truncatingIfNeeded: distance) { empty = (empty + 1) & mask }
        var next = (empty + 1) & mask
        while slots[next] != 0 {
            let start = Self.slot(of: object + Int(slots[next]), in: old, slots.count)
            if (next - start) & mask >= (next - empty) & mask {
                slots[empty] = slots[next]
                empty = next
            }
            next = (next + 1) & mask
        }
        slots[empty] = 0
    }

    /// Replaces the distances of the names by those in the new document, which differ by the edits in the object.
    private func shift(_ slots: UnsafeMutableBufferPointer<UInt32>, of object: Int, table: Int, by inner: Range<Int>) {
        // No name follows members that are appended to the object.
        let first = inner.lowerBound
        guard !inner.isEmpty, edits[first].nodes.lowerBound < table else { return }
        if inner.count == 1 {
            let distance = UInt32(truncatingIfNeeded: edits[first].nodes.upperBound - object)
            let growth = UInt32(truncatingIfNeeded: shifts[first] - (first == 0 ? 0 : shifts[first - 1]))
            for slot in slots.indices where slots[slot] >= distance { slots[slot] &+= growth }
            return
        }
        let base = shift(of: object)
        for slot in slots.indices where slots[slot] != 0 {
            let growth = shift(of: object + Int(slots[slot])) - base
            slots[slot] &+= UInt32(truncatingIfNeeded: growth)
        }
    }
}
