import JSON

/// The values set over the socket: the highest layer.
///
/// Each `set` is an entry of its own, so that it can expire on its own. A later entry at or above a path replaces the
/// entries there and below; an entry below an older one refines it.
struct OverrideLayer: Sendable {
    /// One `set`.
    struct Entry: Sendable, Equatable {
        let path: [String]
        /// The path's; compared before the names are.
        let fingerprint: Int
        var value: JSONValue
        /// When it was set, in milliseconds since 1970.
        var setAt: Int
        /// When it ends, in milliseconds since 1970; nil for never.
        var expiresAt: Int?
        /// Who set it, where that was written down.
        var setBy: Peer?

        init(path: [String], value: JSONValue, setAt: Int, expiresAt: Int? = nil, setBy: Peer? = nil) {
            self.path = path
            fingerprint = path.fingerprint
            self.value = value
            self.setAt = setAt
            self.expiresAt = expiresAt
            self.setBy = setBy
        }

        /// Whether it is at a path or below it.
        func isWithin(_ other: Entry) -> Bool {
            if path.count == other.path.count, fingerprint != other.fingerprint { return false }
            return path.begins(withNames: other.path)
        }
    }

    /// The entries: what refines another one comes behind it.
    private(set) var entries = OverrideEntries()
    /// The size of all values and their paths together.
    private(set) var bytes = 0
    /// How many of them end at a time.
    private(set) var ending = 0
    /// How many of them have had nulls, which hide what lower layers say: members stand where a null was that they took the
    /// place of.
    private var hiding = 0

    init() {}

    init(entries: some Sequence<Entry>) {
        self.entries = OverrideEntries(entries)
        bytes = self.entries.reduce(0) { $0 + $1.bytes }
        ending = self.entries.count { $0.expiresAt != nil }
        hiding = self.entries.count { $0.value.hidesSomething }
    }

    /// What became of an entry that was set.
    enum Placement {
        /// It is the only change; a value at the same path, and none below it, was there before.
        case replaced(JSONValue)
        /// It was added behind all others, took the place of none, and none of them hides what it says.
        case added
        /// It took the place of entries below its path, and maybe of one there; or nulls have kept a place for it.
        case addedAmongOthers
        /// It was not set: all together would have so many bytes.
        case refused(bytes: Int)
    }

    /// Sets an entry. One at the same path gives it its place, so that the same values have the same text.
    /// - Parameter maximumBytes: what all entries together may have.
    @discardableResult
    mutating func set(_ entry: Entry, maximumBytes: Int = .max) -> Placement {
        let former = entries.positions(within: entry)
        let total = former.reduce(bytes + entry.bytes) { $0 - entries[$1].bytes }
        if total > maximumBytes { return .refused(bytes: total) }
        bytes = total
        ending += (entry.expiresAt == nil ? 0 : 1) - former.count { entries[$0].expiresAt != nil }
        if entry.value.hidesSomething { hiding += 1 }
        if former.count == 1, entries[former[0]].path.count == entry.path.count {
            let value = entries[former[0]].value
            entries[former[0]] = entry
            return .replaced(value)
        }
        if !former.isEmpty { entries = OverrideEntries(entries.filter { !$0.isWithin(entry) }) }
        entries.append(entry)
        return former.isEmpty && hiding == 0 ? .added : .addedAmongOthers
    }

    /// Removes what was set at the path and below it.
    /// - Returns: whether there was anything.
    mutating func unset(_ path: [String]) -> Bool {
        remove { $0.path.begins(withNames: path) }
    }

    /// Removes what has expired.
    /// - Parameter ended: what ends at these times has expired as well.
    /// - Returns: whether there was anything.
    mutating func expire(at now: Int, or ended: Set<Int> = []) -> Bool {
        remove { $0.expiresAt.map { $0 <= now || ended.contains($0) } ?? false }
    }

    private mutating func remove(_ isGoing: (Entry) -> Bool) -> Bool {
        if !entries.contains(where: isGoing) { return false }
        self = OverrideLayer(entries: entries.filter { !isGoing($0) })
        return true
    }

    /// When entries end.
    var expiries: Set<Int> { ending == 0 ? [] : Set(entries.lazy.compactMap(\.expiresAt)) }

    /// The entries as merge patches, to be applied one after the other. Nulls stay in them: they hide what the lower
    /// layers say. One does for all entries, unless one replaces what another one is then set below.
    func patches() -> [JSONValue] {
        var patches: [PatchNode] = []
        for entry in entries {
            if let last = patches.last, last.insert(entry.value, at: entry.path[...]) { continue }
            let next = PatchNode()
            _ = next.insert(entry.value, at: entry.path[...])
            patches.append(next)
        }
        return patches.map { patch in JSONValue.building { patch.write(to: &$0) } }
    }
}

extension JSONValue {
    /// Whether a merge patch of this value removes something.
    fileprivate var hidesSomething: Bool {
        switch kind {
        case .null: true
        case .object: members.contains { $0.value.hidesSomething }
        case .array, .bool, .number, .string: false
        }
    }
}

extension OverrideLayer.Entry {
    /// The size of the value and the path, as it would be in a document.
    var bytes: Int { value.textSize + path.reduce(0) { $0 + $1.utf8.count + 5 } }
}

/// A merge patch while it is put together. Local to ``OverrideLayer/patches()``.
private final class PatchNode {
    /// Up to so many names are looked through one by one, which takes less than their hashes.
    private static let fewNames = 16

    private var leaf: JSONValue?
    private var names: [String] = []
    /// What stands under each of the names.
    private var children: [PatchNode] = []
    /// Where each name stands, once there are many, by its UTF-8, as JSON tells names apart: strings are equal whatever way
    /// accents are written.
    private var positions: [[UInt8]: Int] = [:]

    /// Adds a value.
    /// - Returns: false, with nothing added, where it goes into a place that this patch replaces: "replace, then add"
    ///   takes two patches.
    func insert(_ value: JSONValue, at path: ArraySlice<String>) -> Bool {
        var node = self
        // Nothing is added before it is known that all of it can be: what is not there yet replaces nothing.
        for (offset, name) in zip(path.indices, path) {
            if node.leaf != nil { return false }
            guard let known = node.child(named: name) else {
                node.add(value, at: path[offset...])
                return true
            }
            node = known
        }
        guard node.takes(value) else { return false }
        node.add(value, at: [])
        return true
    }

    private func takes(_ value: JSONValue) -> Bool {
        guard value.kind == .object else { return true }
        return leaf == nil && value.members.allSatisfy { child(named: $0.name)?.takes($0.value) ?? true }
    }

    private func add(_ value: JSONValue, at path: ArraySlice<String>) {
        if let name = path.first {
            childToBe(named: name).add(value, at: path.dropFirst())
        } else if value.kind == .object {
            for (name, member) in value.members { childToBe(named: name).add(member, at: []) }
        } else {
            leaf = value
            names = []
            children = []
            positions = [:]
        }
    }

    func write(to writer: inout JSONWriter) {
        if let leaf { return writer.value(leaf) }
        writer.beginObject()
        for (name, child) in zip(names, children) {
            writer.name(name)
            child.write(to: &writer)
        }
        writer.endObject()
    }

    private func child(named name: String) -> PatchNode? {
        let position =
            names.count > Self.fewNames
            ? positions[Array(name.utf8)] : names.firstIndex { $0.isSpelled(as: name) }
        return position.map { children[$0] }
    }

    private func childToBe(named name: String) -> PatchNode {
        if let child = child(named: name) { return child }
        let child = PatchNode()
        names.append(name)
        children.append(child)
        if names.count == Self.fewNames + 1 {
            for (position, name) in names.enumerated() { positions[Array(name.utf8)] = position }
        } else if names.count > Self.fewNames {
            positions[Array(name.utf8)] = names.count - 1
        }
        return child
    }
}
