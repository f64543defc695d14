import Glibc

/// Computes the merge patch between two values, without recursion. The members of each pair of objects are visited in
/// two phases (see ``Frame/isRemoving``).
struct Difference {
    /// Two objects at the same path that are being compared.
    private struct Frame {
        let old: Int
        let new: Int
        /// True in the first phase, which writes a null for each member that the new object lacks. The second phase
        /// writes new and changed members.
        var isRemoving = true
        var oldMembers: MemberCursor
        var newMembers: MemberCursor
        /// The position in the patch before the name and opening brace of this object. If the two objects prove equal,
        /// the output after this position is removed.
        let mark: JSONWriter.Mark
        /// The position of the object's first member in the patch.
        let start: Int
    }

    /// Objects nested deeper than this are compared as text only if they are small. Comparing large objects as text at
    /// every level would take time proportional to size times depth.
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

    /// Processes the next member of the innermost pair of objects. Returns false if a merge patch cannot express the
    /// difference.
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
        // The members usually have the same order in both objects. Comparing the next names then saves a search by
        // name.
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

    /// Whether an object has a null member, directly or in a nested object. Arrays are not searched.
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

/// The effect of several merge patches (RFC 7396) applied in order, expressed as at most two patches.
///
/// A single patch cannot replace a value with an object, because an object in a patch merges with an object in the
/// target. A patch that has an object where an earlier patch has a value of another kind makes such a replacement
/// necessary. The replacement is expressed as a null in ``removals``, which removes the value, and the object in
/// ``patch``.
package struct ComposedPatch: Sendable, Equatable {
    /// Applied before ``patch``. Contains only nulls and the objects on the paths to them. Nil if no object of
    /// ``patch`` replaces a value.
    package private(set) var removals: JSONValue?
    /// Applied last. Its null members remove members of the target.
    package private(set) var patch: JSONValue

    /// A composition of a single patch.
    package init(_ patch: JSONValue) { self.init(removals: nil, patch: patch) }

    /// Creates a composition from the ``removals`` and ``patch`` of an earlier one.
    package init(removals: JSONValue?, patch: JSONValue) {
        self.removals = removals
        self.patch = patch
    }

    /// Composes patches in the order in which they are applied. An empty array makes a composition without effect.
    package init(_ patches: [JSONValue]) {
        self.init(patches.first ?? .emptyObject)
        for next in patches.dropFirst() { append(next) }
    }

    /// One or two patches with the combined effect, in the order in which to apply them.
    package var patches: [JSONValue] { removals.map { [$0, patch] } ?? [patch] }

    /// Adds a patch that is applied after all patches that were added before it.
    package mutating func append(_ next: JSONValue) { self = Self.compose(removals, patch, next) }

    /// - Parameters:
    ///   - removals: the value of the earlier ``removals`` at one path, if any; null if `first` replaces the target's
    ///     value there
    ///   - first: the value of the earlier ``patch`` at this path
    ///   - second: the value of the next patch at this path
    private static func compose(_ removals: JSONValue?, _ first: JSONValue, _ second: JSONValue) -> ComposedPatch {
        guard second.kind == .object else { return ComposedPatch(second) }
        guard first.kind == .object, removals?.isNull != true else {
            return ComposedPatch(removals: .null, patch: MergePatch.apply(second, to: first))
        }
        var members: [(String, JSONValue)] = []
        var removed: [(String, JSONValue)] = []
        for (name, value) in first.members {
            var composed = ComposedPatch(removals: removals?[name], patch: value)
            if let next = second[name] { composed = compose(composed.removals, value, next) }
            members.append((name, composed.patch))
            if let removals = composed.removals { removed.append((name, removals)) }
        }
        for (name, value) in second.members where first[name] == nil { members.append((name, value)) }
        return ComposedPatch(removals: removed.isEmpty ? nil : .object(removed), patch: .object(members))
    }
}
