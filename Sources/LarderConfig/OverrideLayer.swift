import JSON

/// The values set over the socket: the highest layer.
///
/// Each `set` is an entry of its own, so that it can expire on its own. A later entry at or above a path replaces the
/// entries there and below; an entry below an older one refines it.
struct OverrideLayer: Sendable {
    /// One `set`.
    struct Entry: Sendable, Equatable {
        var path: [String]
        var value: JSONValue
        /// When it was set, in milliseconds since 1970.
        var setAt: Int
        /// When it ends, in milliseconds since 1970; nil for never.
        var expiresAt: Int?
    }

    /// The entries in the order in which they were set.
    private(set) var entries: [Entry] = []

    init(entries: [Entry] = []) { self.entries = entries }

    mutating func set(_ entry: Entry) {
        entries.removeAll { $0.path.starts(with: entry.path) }
        entries.append(entry)
    }

    /// Removes what was set at the path and below it.
    /// - Returns: whether there was anything.
    mutating func unset(_ path: [String]) -> Bool {
        let before = entries.count
        entries.removeAll { $0.path.starts(with: path) }
        return entries.count < before
    }

    /// Removes what has expired.
    /// - Returns: whether there was anything.
    mutating func expire(at now: Int) -> Bool {
        let before = entries.count
        entries.removeAll { $0.expiresAt.map { $0 <= now } ?? false }
        return entries.count < before
    }

    /// When the next entry ends.
    var nextExpiry: Int? { entries.lazy.compactMap(\.expiresAt).min() }

    /// The size of all values together.
    var bytes: Int { entries.reduce(0) { $0 + $1.value.textSize } }

    /// The entries as one merge patch. Nulls stay in it: they hide what the lower layers say.
    func patch() -> JSONValue {
        if entries.isEmpty { return .emptyObject }
        let root = PatchNode()
        for entry in entries { root.insert(entry.value, at: entry.path[...]) }
        return JSONValue.building { root.write(to: &$0) }
    }
}

/// A merge patch while it is put together. Local to ``OverrideLayer/patch()``.
private final class PatchNode {
    private var leaf: JSONValue?
    private var names: [String] = []
    private var children: [String: PatchNode] = [:]

    func insert(_ value: JSONValue, at path: ArraySlice<String>) {
        if let name = path.first {
            leaf = nil
            child(name).insert(value, at: path.dropFirst())
        } else if value.kind == .object {
            leaf = nil
            for (name, member) in value.members { child(name).insert(member, at: []) }
        } else {
            leaf = value
            names = []
            children = [:]
        }
    }

    func write(to writer: inout JSONWriter) {
        if let leaf { return writer.value(leaf) }
        writer.beginObject()
        for name in names {
            writer.name(name)
            children[name]?.write(to: &writer)
        }
        writer.endObject()
    }

    private func child(_ name: String) -> PatchNode {
        if let child = children[name] { return child }
        let child = PatchNode()
        names.append(name)
        children[name] = child
        return child
    }
}
