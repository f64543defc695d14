import HashTreeCollections
import JSON

/// A node of an ``OverrideLayer``: what is set at one path, and the nodes below it. It never changes; a change makes new
/// nodes along one path.
final class OverrideNode: Sendable {
    typealias Entry = OverrideLayer.Entry

    /// Sums over the entries at a node and below it.
    struct Totals {
        var bytes = 0
        /// How many of them expire.
        var expiring = 0

        static func + (left: Totals, right: Totals) -> Totals {
            Totals(bytes: left.bytes + right.bytes, expiring: left.expiring + right.expiring)
        }

        static func - (left: Totals, right: Totals) -> Totals {
            Totals(bytes: left.bytes - right.bytes, expiring: left.expiring - right.expiring)
        }
    }

    /// The name of a member. JSON compares names by their UTF-8, and String compares after normalization.
    private struct Name: Hashable {
        let text: String

        static func == (left: Name, right: Name) -> Bool { left.text.isSpelled(as: right.text) }

        func hash(into hasher: inout Hasher) {
            var text = text
            text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
    }

    /// The entry whose path leads here.
    let entry: Entry?
    let totals: Totals
    private let children: TreeDictionary<Name, OverrideNode>
    /// Siblings are ordered by this.
    private let order: Int
    /// The order of the next child that is added.
    private let nextOrder: Int

    private init(
        entry: Entry?, totals: Totals, children: TreeDictionary<Name, OverrideNode>, order: Int, nextOrder: Int
    ) {
        self.entry = entry
        self.totals = totals
        self.children = children
        self.order = order
        self.nextOrder = nextOrder
    }

    /// A node without children.
    convenience init(_ entry: Entry? = nil, order: Int) {
        self.init(entry: entry, totals: entry?.totals ?? Totals(), children: [:], order: order, nextOrder: 0)
    }

    var isLeaf: Bool { children.isEmpty }

    func child(named name: String) -> OverrideNode? { children[Name(text: name)] }

    func node(at path: ArraySlice<String>) -> OverrideNode? {
        var node = self
        for name in path {
            guard let next = node.child(named: name) else { return nil }
            node = next
        }
        return node
    }

    // MARK: Changes

    /// This node with an entry at a path below it, instead of the entries there and below.
    func setting(_ entry: Entry, at path: ArraySlice<String>) -> OverrideNode {
        guard let name = path.first else { return OverrideNode(entry, order: order) }
        let old = child(named: name)
        if path.count > 1 {
            return replacing(
                old, by: (old ?? OverrideNode(order: nextOrder)).setting(entry, at: path.dropFirst()), named: name)
        }
        let place = old.flatMap { $0.isLeaf ? $0.order : nil }
        return replacing(old, by: OverrideNode(entry, order: place ?? nextOrder), named: name)
    }

    /// This node without the entry at a path below it; itself if there is none, nil if no entry is left.
    func removing(at path: ArraySlice<String>, withEntriesBelow: Bool) -> OverrideNode? {
        guard let name = path.first else {
            if isLeaf || withEntriesBelow { return nil }
            guard let entry else { return self }
            return OverrideNode(
                entry: nil, totals: totals - entry.totals, children: children, order: order, nextOrder: nextOrder)
        }
        guard let old = child(named: name) else { return self }
        let new = old.removing(at: path.dropFirst(), withEntriesBelow: withEntriesBelow)
        if new === old { return self }
        if new == nil, entry == nil, children.count == 1 { return nil }
        return replacing(old, by: new, named: name)
    }

    private func replacing(_ old: OverrideNode?, by new: OverrideNode?, named name: String) -> OverrideNode {
        var children = children
        children[Name(text: name)] = new
        return OverrideNode(
            entry: entry, totals: totals - (old?.totals ?? Totals()) + (new?.totals ?? Totals()), children: children,
            order: order, nextOrder: max(nextOrder, (new?.order ?? 0) + 1))
    }

    // MARK: All entries

    /// Appends the entries here and below.
    /// - Parameter isIncluded: whether to look at a node with these totals
    func collect(into entries: inout [Entry], where isIncluded: (Totals) -> Bool = { _ in true }) {
        guard isIncluded(totals) else { return }
        if let entry { entries.append(entry) }
        for (_, child) in orderedChildren { child.collect(into: &entries, where: isIncluded) }
    }

    /// Writes the entries here and below as a merge patch.
    /// - Parameter refinements: receives the entries below other entries, which the patch does not have
    func write(to writer: inout JSONWriter, refinements: inout [Entry]) {
        if let entry {
            writer.value(entry.value)
            for (_, child) in orderedChildren { child.collect(into: &refinements) }
            return
        }
        writer.beginObject()
        for (name, child) in orderedChildren {
            writer.name(name.text)
            child.write(to: &writer, refinements: &refinements)
        }
        writer.endObject()
    }

    private var orderedChildren: [(key: Name, value: OverrideNode)] {
        children.sorted { $0.value.order < $1.value.order }
    }
}

extension OverrideLayer.Entry {
    fileprivate var totals: OverrideNode.Totals {
        OverrideNode.Totals(bytes: bytes, expiring: expiresAt == nil ? 0 : 1)
    }
}
