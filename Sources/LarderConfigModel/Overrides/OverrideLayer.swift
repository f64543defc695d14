package import LarderJSON

/// The values that clients set over the socket: the highest layer.
///
/// Each `set` makes a separate entry, which can expire separately. A new entry replaces the entries at its path and
/// below. An entry below an older one refines it.
///
/// The entries form a tree along their paths. Every publication keeps a copy of the layer. Copies share all nodes
/// except those on paths that have changed in the meantime.
package struct OverrideLayer: Sendable {
    /// Nil if there are no entries.
    private var root: OverrideNode?
    /// The latest ``OverrideEntry/setAt`` of the entries that were set, including those that were removed afterwards.
    private var lastSetAt = Int.min

    package init() {}

    package init(entries: [OverrideEntry]) {
        for entry in entries { set(entry) }
    }

    package var isEmpty: Bool { root == nil }
    /// The total size of all values and their paths as text, in bytes.
    package var bytes: Int { root?.totals.bytes ?? 0 }
    /// When an entry was last set, in milliseconds since 1970; nil if there are no entries. Entries that have been
    /// removed count too, but not after a restart.
    package var updatedAt: Int? { root == nil ? nil : lastSetAt }
    /// The number of entries.
    package var count: Int { root?.totals.count ?? 0 }
    /// The number of entries that expire.
    package var expiring: Int { root?.totals.expiring ?? 0 }

    /// The entries in tree order: an entry precedes those below it, and siblings have the order in which
    /// ``set(_:maximumBytes:)`` places them.
    package var entries: [OverrideEntry] {
        var entries: [OverrideEntry] = []
        root?.collect(into: &entries)
        return entries
    }

    package var expiringEntries: [OverrideEntry] {
        var entries: [OverrideEntry] = []
        root?.collect(into: &entries) { $0.expiring > 0 }
        return entries.filter { $0.expiresAt != nil }
    }

    /// The entry at a path; nil for none.
    package func entry(at path: [String]) -> OverrideEntry? { root?.node(at: path)?.entry }

    /// The number, string or Boolean of the entry at a path; nil if there is none, or if entries below refine it.
    func scalar(at path: [String]) -> JSONValue? {
        guard let node = root?.node(at: path), node.isLeaf, let value = node.value, value.isPlainScalar else {
            return nil
        }
        return value
    }

    /// The node at a path; nil if there are no entries there and below.
    func node(at path: ArraySlice<String>) -> OverrideNode? { root?.node(at: path) }

    /// The length of the shortest path to an entry at `path` or above it; nil for none.
    func depthOfEntry(above path: [String]) -> Int? {
        var node = root
        for depth in 0...path.count {
            guard let current = node else { return nil }
            if current.hasEntry { return depth }
            node = depth < path.count ? current.child(named: path[depth]) : nil
        }
        return nil
    }

    /// The numbers by which the nodes on a path are sorted among their siblings.
    func order(of path: [String]) -> [Int] {
        var order: [Int] = []
        var node = root
        for name in path {
            node = node?.child(named: name)
            guard let node else { return order }
            order.append(node.order)
        }
        return order
    }

    /// The entries at a path and below it, in tree order.
    func entries(atAndBelow path: [String]) -> [OverrideEntry] {
        var entries: [OverrideEntry] = []
        node(at: path[...])?.collect(into: &entries)
        return entries
    }

    /// A part of the entries at a path and below it, in ascending order of their paths. It runs off every actor, because
    /// there may be many entries.
    /// - Parameters:
    ///   - start: the path after which the page begins; nil for the first page. It must begin with `path`.
    ///   - limit: the maximum number of entries
    @concurrent
    package func page(at path: [String], after start: [String]?, limit: Int) async -> OverridePage {
        var page = OverridePage(limit: limit)
        node(at: path[...])?.collect(into: &page, after: start?.dropFirst(path.count))
        return page
    }

    /// The entries at a path, above it and below it, in tree order.
    package func entries(around path: [String]) -> [OverrideEntry] {
        var entries: [OverrideEntry] = []
        var node = root
        for name in path {
            if let entry = node?.entry { entries.append(entry) }
            node = node?.child(named: name)
        }
        node?.collect(into: &entries)
        return entries
    }

    /// The result of ``set(_:maximumBytes:)``.
    enum Placement {
        /// - Parameter replacing: the previous node at the path, with everything below it; nil for none
        case set(replacing: OverrideNode?)
        /// The entry was not set, because all entries together would have this many bytes, more than the maximum.
        case rejected(bytes: Int)
    }

    /// Sets an entry. If there is an entry at the same path and none below it, the new entry takes the old one's place
    /// among the siblings, so that equal values have equal text. Otherwise the new entry becomes the last sibling.
    /// - Parameter maximumBytes: the limit for all entries together
    mutating func set(_ entry: OverrideEntry, maximumBytes: Int) -> Placement {
        var replaced: OverrideNode?
        let new = (root ?? OverrideNode()).setting(entry, replaced: &replaced)
        if new.totals.bytes > maximumBytes { return .rejected(bytes: new.totals.bytes) }
        root = new
        lastSetAt = max(lastSetAt, entry.setAt)
        return .set(replacing: replaced)
    }

    /// Sets an entry without a size limit.
    package mutating func set(_ entry: OverrideEntry) { _ = set(entry, maximumBytes: .max) }

    /// Removes the entries at a path and below it.
    /// - Returns: whether there were any
    package mutating func unset(_ path: [String]) -> Bool { remove(at: path, withEntriesBelow: true) }

    /// Removes the entry at a path if it expires at `time`. Entries below it stay.
    /// - Returns: whether it was removed
    package mutating func expire(_ path: [String], expiringAt time: Int) -> Bool {
        entry(at: path)?.expiresAt == time && remove(at: path, withEntriesBelow: false)
    }

    /// Removes the entries that expire at or before a time.
    /// - Returns: whether there were any
    package mutating func expire(at now: Int) -> Bool {
        var hasExpired = false
        for entry in expiringEntries {
            guard let end = entry.expiresAt, end <= now else { continue }
            hasExpired = expire(entry.path, expiringAt: end) || hasExpired
        }
        return hasExpired
    }

    private mutating func remove(at path: [String], withEntriesBelow: Bool) -> Bool {
        let new = root?.removing(at: path, withEntriesBelow: withEntriesBelow)
        if new === root { return false }
        root = new
        return true
    }

    /// The entries as merge patches to apply in order. They include nulls, which remove values of lower layers. After the
    /// removals that must precede it, a patch has the entries that are not below other entries. The next one has those
    /// directly below these, and so on.
    func patches() -> [JSONValue] {
        guard let root else { return [] }
        var rest = OverrideNode.Rest()
        let patch = JSONValue.building { root.write(to: &$0, over: nil, rest: &rest) }
        return OverrideLayer(entries: rest.removals).patches() + [patch]
            + OverrideLayer(entries: rest.refinements).patches()
    }

    /// Merges lower layers, lowest first, and applies the entries to the result. A null entry removes the member at its
    /// path. If there is no such member, the entry changes nothing: unlike a null in a merge patch, it does not create
    /// the objects above it.
    func applied(to documents: [JSONValue]) -> JSONValue {
        guard let root, root.totals.nulls > 0 else { return MergePatch.merge(documents + patches()) }
        var target = MergePatch.merge(documents)
        var rest = OverrideNode.Rest()
        let patch = JSONValue.building { root.write(to: &$0, over: target, rest: &rest) }
        if !rest.removals.isEmpty { target = OverrideLayer(entries: rest.removals).applied(to: [target]) }
        let result = MergePatch.apply(patch, to: target)
        return rest.refinements.isEmpty ? result : OverrideLayer(entries: rest.refinements).applied(to: [result])
    }
}

extension JSONValue {
    /// Whether this is a number, a string or a Boolean.
    var isPlainScalar: Bool { kind == .number || kind == .string || kind == .bool }
}

/// A value that a client set at a path.
package struct OverrideEntry: Sendable, Equatable {
    package let path: [String]
    package var value: JSONValue
    /// When it was set, in milliseconds since 1970.
    package var setAt: Int
    /// When it expires, in milliseconds since 1970; nil for never.
    package var expiresAt: Int?
    /// The process that set it; nil if unknown.
    package var setBy: Peer?
    /// Why it was set; nil if the client gave no reason.
    package var reason: String?

    package init(
        path: [String], value: JSONValue, setAt: Int, expiresAt: Int? = nil, setBy: Peer? = nil, reason: String? = nil
    ) {
        self.path = path
        self.value = value
        self.setAt = setAt
        self.expiresAt = expiresAt
        self.setBy = setBy
        self.reason = reason
    }

    /// The size of the value and its path as text, in bytes.
    package var bytes: Int { value.textSize + path.reduce(0) { $0 + $1.utf8.count + 5 } }
}

/// A part of the entries of an ``OverrideLayer``.
package struct OverridePage: Sendable {
    /// The size of values and paths after which a page ends, in bytes.
    private static let maxBytes = 256 << 10

    package private(set) var entries: [OverrideEntry] = []
    /// Whether further entries follow.
    package private(set) var isFull = false
    private let limit: Int
    private var bytes = 0

    init(limit: Int) { self.limit = limit }

    /// Adds an entry. If there is no space for it, the page is full.
    mutating func add(_ entry: OverrideEntry) {
        if entries.count == limit || bytes > Self.maxBytes { return isFull = true }
        entries.append(entry)
        bytes += entry.bytes
    }

    /// An upper bound of the memory of a copy of the entries and of their text, in bytes.
    package var copiedBytes: Int {
        entries.reduce(0) { $0 + $1.value.detachedMemory + 2 * ($1.bytes + ($1.reason?.utf8.count ?? 0)) + 1024 }
    }
}

/// The lifetime of an override that was set.
package struct OverrideLifetime: Sendable, Hashable {
    /// When the override expires, in milliseconds since 1970; nil for never.
    package var expiresAt: Int?
    /// Whether the override replaced one at the same path whose ``expiresAt`` was different.
    package var changed: Bool
}

extension OverrideLifetime {
    /// - Parameter old: the previous node at the path; nil for none
    init(of entry: OverrideEntry, replacing old: OverrideNode?) {
        expiresAt = entry.expiresAt
        changed = old.map { $0.hasEntry && $0.expiresAt != entry.expiresAt } ?? false
    }
}
