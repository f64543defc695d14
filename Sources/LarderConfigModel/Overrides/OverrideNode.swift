import LarderJSON

/// A node of an ``OverrideLayer``: what is set at one path, and the nodes below it. It never changes; a change makes new
/// nodes along one path.
final class OverrideNode: Sendable {
    /// Sums over the entries at a node and below it.
    struct Totals {
        var bytes = 0
        /// How many of them expire.
        var expiring = 0
        /// How many of them are null.
        var nulls = 0
        /// How many there are.
        var count = 0

        static func + (left: Totals, right: Totals) -> Totals {
            Totals(
                bytes: left.bytes + right.bytes, expiring: left.expiring + right.expiring,
                nulls: left.nulls + right.nulls, count: left.count + right.count)
        }

        static func - (left: Totals, right: Totals) -> Totals {
            Totals(
                bytes: left.bytes - right.bytes, expiring: left.expiring - right.expiring,
                nulls: left.nulls - right.nulls, count: left.count - right.count)
        }
    }

    /// The name of a member. JSON compares names by their UTF-8, and String compares after normalization.
    struct Name: Equatable {
        let text: String
        let hash: Int

        init(_ text: String) {
            self.text = text
            hash = text.hashValue
        }

        static func == (left: Name, right: Name) -> Bool {
            left.hash == right.hash && left.text.isSpelled(as: right.text)
        }
    }

    let name: Name
    /// The entry whose path leads here.
    let entry: OverrideEntry?
    let totals: Totals
    private let children: OverrideChildren
    /// Siblings are ordered by this.
    private let order: Int
    /// The order of the next child that is added.
    private let nextOrder: Int

    private init(
        _ name: Name, entry: OverrideEntry?, totals: Totals, children: OverrideChildren, order: Int, nextOrder: Int
    ) {
        self.name = name
        self.entry = entry
        self.totals = totals
        self.children = children
        self.order = order
        self.nextOrder = nextOrder
    }

    /// A node without children.
    private convenience init(_ name: Name, entry: OverrideEntry?, order: Int) {
        self.init(
            name, entry: entry, totals: entry?.totals ?? Totals(), children: OverrideChildren(), order: order,
            nextOrder: 0)
    }

    /// A root without entries.
    convenience init() { self.init(Name(""), entry: nil, order: 0) }

    var isLeaf: Bool { children.isEmpty }
    /// The parts of the entry, without a copy of it.
    var hasEntry: Bool { if case .some = entry { true } else { false } }
    var value: JSONValue? { entry?.value }
    var expiresAt: Int? { entry?.expiresAt }

    func child(named name: String) -> OverrideNode? { children.node(named: Name(name)) }

    func node(at path: [String]) -> OverrideNode? {
        var node = self
        for name in path {
            guard let next = node.child(named: name) else { return nil }
            node = next
        }
        return node
    }

    // MARK: Changes

    /// This node with an entry below it, instead of the entries at its path and below.
    /// - Parameters:
    ///   - depth: how many names of the entry's path lead here
    ///   - replaced: receives the node that the entry replaces, if there is one
    func setting(_ entry: OverrideEntry, depth: Int = 0, replaced: inout OverrideNode?) -> OverrideNode {
        if depth == entry.path.count {
            replaced = self
            return OverrideNode(name, entry: entry, order: order)
        }
        let name = Name(entry.path[depth])
        let old = children.node(named: name)
        let new: OverrideNode
        if depth + 1 < entry.path.count {
            new = (old ?? OverrideNode(name, entry: nil, order: nextOrder))
                .setting(entry, depth: depth + 1, replaced: &replaced)
        } else {
            replaced = old
            let place = old.flatMap { $0.isLeaf ? $0.order : nil }
            new = OverrideNode(name, entry: entry, order: place ?? nextOrder)
        }
        return replacing(old, by: new, named: name)
    }

    /// This node without the entry at a path below it; itself if there is none, nil if no entry is left.
    /// - Parameter depth: how many names of the path lead here
    func removing(at path: [String], depth: Int = 0, withEntriesBelow: Bool) -> OverrideNode? {
        if depth == path.count {
            if isLeaf || withEntriesBelow { return nil }
            guard let entry else { return self }
            return OverrideNode(
                name, entry: nil, totals: totals - entry.totals, children: children, order: order,
                nextOrder: nextOrder)
        }
        guard let old = child(named: path[depth]) else { return self }
        let new = old.removing(at: path, depth: depth + 1, withEntriesBelow: withEntriesBelow)
        if new === old { return self }
        let rest = replacing(old, by: new, named: old.name)
        return rest.entry == nil && rest.isLeaf ? nil : rest
    }

    private func replacing(_ old: OverrideNode?, by new: OverrideNode?, named name: Name) -> OverrideNode {
        var children = children
        children.replace(name, by: new)
        return OverrideNode(
            self.name, entry: entry, totals: totals - (old?.totals ?? Totals()) + (new?.totals ?? Totals()),
            children: children, order: order, nextOrder: max(nextOrder, (new?.order ?? 0) + 1))
    }

    // MARK: All entries

    /// Appends the entries here and below.
    /// - Parameter isIncluded: whether to look at a node with these totals
    func collect(into entries: inout [OverrideEntry], where isIncluded: (Totals) -> Bool = { _ in true }) {
        guard isIncluded(totals) else { return }
        if let entry { entries.append(entry) }
        for child in orderedChildren { child.collect(into: &entries, where: isIncluded) }
    }

    /// Whether all entries below this node are null, and none is here. They remove members and make no objects.
    private var onlyRemovesMembers: Bool { entry == nil && totals.nulls == totals.count }

    /// Writes the entries here and below as a merge patch.
    /// - Parameters:
    ///   - target: what the patch will be applied to at this place, so that it has no objects which are there only to
    ///     remove a member of nothing; nil for a patch with all entries
    ///   - refinements: receives the entries below other entries, which the patch does not have
    func write(to writer: inout JSONWriter, over target: JSONValue?, refinements: inout [OverrideEntry]) {
        if let entry {
            writer.value(entry.value)
            for child in orderedChildren { child.collect(into: &refinements) }
            return
        }
        writer.beginObject()
        for child in orderedChildren {
            let place = target.map { $0.kind == .object ? $0[child.name.text] ?? .null : .null }
            if let place, place.kind != .object, child.onlyRemovesMembers { continue }
            writer.name(child.name.text)
            child.write(to: &writer, over: place, refinements: &refinements)
        }
        writer.endObject()
    }

    private var orderedChildren: [OverrideNode] {
        var nodes: [OverrideNode] = []
        children.forEach { nodes.append($0) }
        return nodes.sorted { $0.order < $1.order }
    }
}

extension OverrideEntry {
    fileprivate var totals: OverrideNode.Totals {
        OverrideNode.Totals(bytes: bytes, expiring: expiresAt == nil ? 0 : 1, nulls: value.isNull ? 1 : 0, count: 1)
    }
}
