import Glibc

/// Finds the merge patch between two values, without recursion and visiting each member once.
struct Difference {
    /// Two objects at the same place, while their members are compared.
    private struct Frame {
        let old: Int
        let new: Int
        /// Members of the old object that the new one has lost are written first, then what is new or changed.
        var isRemoving = true
        var oldMembers: MemberCursor
        var newMembers: MemberCursor
        /// Where the patch's name and brace for this object begin, to take them back if nothing differs.
        let mark: JSONWriter.Mark
        /// Where its members begin.
        let start: Int
    }

    /// Where to look for whole subtrees that are the same: further down it is left to their parts, so that a
    /// difference deep inside is not searched for once per level.
    private static let bytewiseDepth = 64

    private let old: Document
    private let new: Document
    private var writer = JSONWriter()
    private var frames: [Frame] = []

    static func patch(from old: JSONValue, to new: JSONValue) -> JSONValue? {
        guard new.kind == .object else { return new }
        guard old.kind == .object else {
            return hasNullMember(new.document, new.node) ? nil : new
        }
        if old.document === new.document && old.node == new.node { return .emptyObject }
        var difference = Difference(old: old.document, new: new.document)
        difference.push(old: old.node, new: new.node, mark: difference.writer.mark)
        while !difference.frames.isEmpty {
            guard difference.step() else { return nil }
        }
        return JSONValue.building { $0 = difference.writer }
    }

    private init(old: Document, new: Document) {
        self.old = old
        self.new = new
    }

    private mutating func push(old oldNode: Int, new newNode: Int, mark: JSONWriter.Mark) {
        writer.beginObject()
        frames.append(
            Frame(
                old: oldNode, new: newNode, oldMembers: MemberCursor(old, object: oldNode),
                newMembers: MemberCursor(new, object: newNode), mark: mark, start: writer.bytes.count))
    }

    /// Looks at the next member of the innermost objects. False if no patch can say the difference.
    private mutating func step() -> Bool {
        let last = frames.count - 1
        if frames[last].isRemoving {
            if let (name, _) = frames[last].oldMembers.next(old) {
                removed(last, name)
            } else {
                frames[last].isRemoving = false
                frames[last].oldMembers = MemberCursor(old, object: frames[last].old)
                frames[last].newMembers = MemberCursor(new, object: frames[last].new)
            }
            return true
        }
        if let (name, value) = frames[last].newMembers.next(new) { return changed(last, name, value) }
        let frame = frames.removeLast()
        if last > 0, writer.bytes.count == frame.start {
            writer.rewind(to: frame.mark)
        } else {
            writer.endObject()
        }
        return true
    }

    private mutating func removed(_ last: Int, _ name: Int) {
        // Mostly the order is the same, and the name need not be looked for.
        if let (other, _) = frames[last].newMembers.next(new), same(name, other) { return }
        if Names.find(new, object: frames[last].new, like: name, of: old) != nil { return }
        writer.name(old, name)
        writer.null()
    }

    private mutating func changed(_ last: Int, _ name: Int, _ value: Int) -> Bool {
        var before: Int?
        if let (other, otherValue) = frames[last].oldMembers.next(old), same(other, name) {
            before = otherValue
        } else {
            before = Names.find(old, object: frames[last].old, like: name, of: new)
        }
        let entry = new.nodes[value]
        if let before {
            let oldEntry = old.nodes[before]
            if entry.kind == Node.Kind.object, oldEntry.kind == Node.Kind.object {
                if isSameText(oldEntry, entry) { return true }
                let mark = writer.mark
                writer.name(new, name)
                push(old: before, new: value, mark: mark)
                return true
            }
            if Comparison.equal(old, before, new, value) { return true }
        }
        if entry.kind == Node.Kind.null || Difference.hasNullMember(new, value) { return false }
        writer.name(new, name)
        writer.value(JSONValue(document: new, node: value))
        return true
    }

    private func same(_ oldName: Int, _ newName: Int) -> Bool {
        Names.equal(old.nodes[oldName], old.text, new.nodes[newName], new.text)
    }

    private func isSameText(_ a: Node, _ b: Node) -> Bool {
        guard a.length == b.length, frames.count <= Difference.bytewiseDepth || a.length < 256 else { return false }
        return memcmp(old.text + Int(a.offset), new.text + Int(b.offset), Int(a.length)) == 0
    }

    /// Whether an object or one inside it, arrays apart, has a member that is null.
    private static func hasNullMember(_ document: Document, _ node: Int) -> Bool {
        var pending = [node]
        while let object = pending.popLast() {
            let entry = document.nodes[object]
            guard entry.kind == Node.Kind.object, entry.has(Node.Flag.nullMembers) else { continue }
            var members = MemberCursor(document, object: object)
            while let (_, value) = members.next(document) {
                if document.nodes[value].kind == Node.Kind.null { return true }
                pending.append(value)
            }
        }
        return false
    }
}
