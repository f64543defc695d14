import LarderJSON

/// The values set over the socket: the highest layer.
///
/// Each `set` is an entry of its own, so that it can expire on its own. A later entry at or above a path replaces the
/// entries there and below; an entry below an older one refines it.
///
/// The entries form a tree along their paths. Each publication keeps a copy of the layer; copies share all nodes except
/// those on the paths that have changed since.
package struct OverrideLayer: Sendable {
    /// nil for no entries.
    private var root: OverrideNode?

    package init() {}

    package init(entries: [OverrideEntry]) {
        for entry in entries { set(entry) }
    }

    package var isEmpty: Bool { root == nil }
    /// The size of all values and their paths together.
    package var bytes: Int { root?.totals.bytes ?? 0 }
    /// How many entries expire.
    package var expiring: Int { root?.totals.expiring ?? 0 }

    /// The entries in the order of the tree: an entry precedes those below it, and siblings keep the order in which they
    /// were first set.
    package var entries: [OverrideEntry] {
        var entries: [OverrideEntry] = []
        root?.collect(into: &entries)
        return entries
    }

    /// The entries that expire.
    package var expiringEntries: [OverrideEntry] {
        var entries: [OverrideEntry] = []
        root?.collect(into: &entries) { $0.expiring > 0 }
        return entries.filter { $0.expiresAt != nil }
    }

    /// The entry at a path; nil if there is none.
    package func entry(at path: [String]) -> OverrideEntry? { root?.node(at: path)?.entry }

    /// The entries at a path, above it and below it, in their order.
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
        /// The entry is set.
        /// - Parameter replacing: the entry at its path with all below it; nil if there were none
        case set(replacing: OverrideNode?)
        /// Nothing has changed, because all entries together would have this many bytes.
        case refused(bytes: Int)
    }

    /// Sets an entry. One that only replaces an entry at the same path takes its place, so that the same values have the
    /// same text; any other becomes the last of its siblings.
    /// - Parameter maximumBytes: the limit for all entries together
    mutating func set(_ entry: OverrideEntry, maximumBytes: Int) -> Placement {
        var replaced: OverrideNode?
        let new = (root ?? OverrideNode()).setting(entry, replaced: &replaced)
        if new.totals.bytes > maximumBytes { return .refused(bytes: new.totals.bytes) }
        root = new
        return .set(replacing: replaced)
    }

    /// Sets an entry, without a limit.
    package mutating func set(_ entry: OverrideEntry) { _ = set(entry, maximumBytes: .max) }

    /// Removes the entries at a path and below it.
    /// - Returns: whether there were any
    package mutating func unset(_ path: [String]) -> Bool { remove(at: path, withEntriesBelow: true) }

    /// Removes the entry at a path if it expires at a time.
    /// - Returns: whether it did
    package mutating func expire(_ path: [String], expiringAt time: Int) -> Bool {
        entry(at: path)?.expiresAt == time && remove(at: path, withEntriesBelow: false)
    }

    /// Removes the entries that expire at a time or before it.
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

    /// The entries as merge patches, to be applied one after the other. Nulls stay in them: they hide what the lower
    /// layers say. The first patch has the entries that refine no other entry, and so on.
    func patches() -> [JSONValue] {
        guard let root else { return [] }
        var refinements: [OverrideEntry] = []
        let patch = JSONValue.building { root.write(to: &$0, over: nil, refinements: &refinements) }
        return [patch] + OverrideLayer(entries: refinements).patches()
    }

    /// Merges lower layers, lowest first, and applies the entries to the result. An entry that is null removes the member
    /// at its path. If there is none it changes nothing: unlike a merge patch it makes no objects on the way.
    func applied(to documents: [JSONValue]) -> JSONValue {
        guard let root, root.totals.nulls > 0 else { return MergePatch.merge(documents + patches()) }
        let target = MergePatch.merge(documents)
        var refinements: [OverrideEntry] = []
        let patch = JSONValue.building { root.write(to: &$0, over: target, refinements: &refinements) }
        let result = MergePatch.apply(patch, to: target)
        return refinements.isEmpty ? result : OverrideLayer(entries: refinements).applied(to: [result])
    }
}
