import LarderJSON

/// A node of an ``OverrideLayer``: the entry at one path, and the nodes below it. Nodes are immutable. A change creates
/// new nodes along one path.
final class OverrideNode: Sendable {
    /// Totals of the entries at a node and below it.
    struct Totals {
        var bytes = 0
        /// The number of entries that expire.
        var expiring = 0
        /// The number of entries that are null.
        var nulls = 0
        /// The number of entries.
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

    /// The name of a member. Names are compared by their UTF-8, because `==` of `String` ignores differences in Unicode
    /// normalization.
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
    /// The entry at the path of this node; nil for none.
    let entry: OverrideEntry?
    let totals: Totals
    private let children: OverrideChildren
    /// The number that determines the position of the node: siblings are sorted by it.
    let order: Int
    /// The ``order`` of the next new child.
    let nextOrder: Int

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

    private convenience init(_ name: Name, entry: OverrideEntry?, order: Int) {
        self.init(
            name, entry: entry, totals: entry?.totals ?? Totals(), children: OverrideChildren(), order: order,
            nextOrder: 0)
    }

    /// A root without entries.
    convenience init() { self.init(Name(""), entry: nil, order: 0) }

    var isLeaf: Bool { totals.count == (hasEntry ? 1 : 0) }
    /// Whether there is an entry. Like the two properties below, this avoids a copy of the entry.
    var hasEntry: Bool { if case .some = entry { true } else { false } }
    /// Whether there is an entry that is not null, here or below.
    var hasValues: Bool { totals.count > totals.nulls }
    /// Whether there is an entry that is not null, below this node.
    var hasValuesBelow: Bool { totals.count - totals.nulls > (hasEntry && value?.isNull == false ? 1 : 0) }
    var value: JSONValue? { entry?.value }
    var expiresAt: Int? { entry?.expiresAt }

    func child(named name: String) -> OverrideNode? { children.node(named: Name(name)) }

    func node(at path: some Sequence<String>) -> OverrideNode? {
        var node = self
        for name in path {
            guard let next = node.child(named: name) else { return nil }
            node = next
        }
        return node
    }

    // MARK: Changes

    /// Returns this node with an entry set below it. The entry replaces those at its path and below.
    /// - Parameters:
    ///   - depth: the number of names in the entry's path that lead to this node
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

    /// Returns this node without the entry at a path below it. Returns the node itself if there is no such entry, and
    /// nil if no entry is left.
    /// - Parameter depth: the number of names in the path that lead to this node
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
        children.replace(old, by: new, named: name)
        return OverrideNode(
            self.name, entry: entry, totals: totals - (old?.totals ?? Totals()) + (new?.totals ?? Totals()),
            children: children, order: order, nextOrder: max(nextOrder, (new?.order ?? 0) + 1))
    }

    // MARK: All entries

    /// Appends the entries at this node and below it, in tree order.
    /// - Parameter isIncluded: whether to visit a node with these totals
    func collect(into entries: inout [OverrideEntry], where isIncluded: (Totals) -> Bool = { _ in true }) {
        guard isIncluded(totals) else { return }
        if let entry { entries.append(entry) }
        for child in orderedChildren { child.collect(into: &entries, where: isIncluded) }
    }

    /// Adds the entries at this node and below it to a page, until the page is full. The order is that of the names'
    /// bytes, and an entry precedes those below it.
    /// - Parameter start: the path, relative to this node, after which the entries begin; nil for all entries
    func collect(into page: inout OverridePage, after start: ArraySlice<String>?) {
        if let entry, start == nil { page.add(entry) }
        if page.isFull { return }
        var nodes: [OverrideNode] = []
        let first = start?.first?.utf8
        children.forEach { node in
            if first.map({ node.name.text.utf8.lexicographicallyPrecedes($0) }) != true { nodes.append(node) }
        }
        nodes.sort { $0.name.text.utf8.lexicographicallyPrecedes($1.name.text.utf8) }
        for node in nodes {
            let isStart = first.map { node.name.text.utf8.elementsEqual($0) } ?? false
            node.collect(into: &page, after: isStart ? start?.dropFirst() : nil)
            if page.isFull { return }
        }
    }

    /// Whether there is no entry here and all entries below are null, so that they only remove members.
    private var onlyRemovesMembers: Bool { entry == nil && totals.nulls == totals.count }

    /// The entries that ``write(to:over:rest:)`` does not write.
    struct Rest {
        /// The null entries with values below them. The patch has an object with these values. The value at the path of
        /// such an entry must be removed before the patch is applied, because it would be merged into that object.
        var removals: [OverrideEntry] = []
        /// The entries below other entries, to apply after the patch.
        var refinements: [OverrideEntry] = []
    }

    /// Writes the entries at this node and below it as a merge patch.
    /// - Parameters:
    ///   - target: the value at this path to which the patch will be applied; null for none. Objects are left out if
    ///     they would only remove members that the target does not have. Nil for a patch with all entries.
    ///   - rest: receives the entries that are not in the patch
    func write(to writer: inout JSONWriter, over target: JSONValue?, rest: inout Rest) {
        var target = target
        if let entry {
            guard entry.value.isNull, hasValues else {
                writer.value(entry.value)
                for child in orderedChildren { child.collect(into: &rest.refinements) }
                return
            }
            if target?.isNull != true { rest.removals.append(entry) }
            target = .null
        }
        writer.beginObject()
        for child in orderedChildren {
            let place = target.map { $0.kind == .object ? $0[child.name.text] ?? .null : .null }
            if let place, place.kind != .object, child.onlyRemovesMembers { continue }
            writer.name(child.name.text)
            child.write(to: &writer, over: place, rest: &rest)
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

/// The children of an ``OverrideNode`` by name, as a hash trie. A change copies only the lists and tables on the way to
/// one child, so its cost does not depend on the number of children.
enum OverrideChildren: Sendable {
    /// The children, in no particular order.
    case list([OverrideNode])
    /// Groups of children, indexed by five bits of the hash of their names. A table inside a table uses the next five
    /// bits.
    case table([OverrideChildren])

    private static let bitsPerTable = 5
    /// The maximum length of a list. A longer list becomes a table, unless no bits of the hash are left.
    private static let maxListed = 32

    init() { self = .list([]) }

    func node(named name: OverrideNode.Name, afterBits bits: Int = 0) -> OverrideNode? {
        switch self {
        case .list(let nodes): nodes.first { $0.name == name }
        case .table(let parts):
            parts[Self.index(of: name, afterBits: bits)].node(named: name, afterBits: bits + Self.bitsPerTable)
        }
    }

    /// Replaces, adds or removes the child with a name.
    /// - Parameters:
    ///   - old: the present child; nil for none
    ///   - new: the next child; nil for none
    mutating func replace(
        _ old: OverrideNode?, by new: OverrideNode?, named name: OverrideNode.Name, afterBits bits: Int = 0
    ) {
        switch self {
        case .list(var nodes):
            let index = old.flatMap { old in nodes.firstIndex { $0 === old } }
            switch (index, new) {
            case (let index?, let new?): nodes[index] = new
            case (let index?, nil): nodes.remove(at: index)
            case (nil, let new?): nodes.append(new)
            case (nil, nil): return
            }
            self = .list(nodes)
            if nodes.count > Self.maxListed, bits + Self.bitsPerTable <= Int.bitWidth {
                var parts = [OverrideChildren](repeating: OverrideChildren(), count: 1 << Self.bitsPerTable)
                for node in nodes {
                    parts[Self.index(of: node.name, afterBits: bits)]
                        .replace(nil, by: node, named: node.name, afterBits: bits + Self.bitsPerTable)
                }
                self = .table(parts)
            }
        case .table(var parts):
            self = .list([])
            parts[Self.index(of: name, afterBits: bits)]
                .replace(old, by: new, named: name, afterBits: bits + Self.bitsPerTable)
            self = .table(parts)
        }
    }

    func forEach(_ body: (OverrideNode) -> Void) {
        switch self {
        case .list(let nodes): nodes.forEach(body)
        case .table(let parts): for part in parts { part.forEach(body) }
        }
    }

    private static func index(of name: OverrideNode.Name, afterBits bits: Int) -> Int {
        name.hash >> bits & (1 << bitsPerTable - 1)
    }
}
