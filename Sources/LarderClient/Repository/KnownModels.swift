import LarderJSON

/// The values that a repository has last seen of the models in its collection. It performs no I/O.
///
/// Values come from snapshots, from the replies to writes, and from conflicts. They may arrive in any order. A value
/// never replaces one of a newer revision, so a model that was just saved is not replaced by an older snapshot.
struct KnownModels {
    typealias Position = SnapshotReceiver.Position

    private struct Entry {
        var value: JSONValue
        var revision: Int
    }

    private var epoch: String?
    // Keys are paths, because two strings that differ only in Unicode normalization are equal, and two names are not.
    private var entries: [JSONPath: Entry] = [:]
    /// The revisions in which models were deleted. Entries are removed once a newer snapshot was read.
    private var deletions: [JSONPath: Int] = [:]

    /// The value last seen at a path; nil if none was seen, or if the model was last seen to be absent.
    func value(at path: JSONPath) -> JSONValue? { entries[path]?.value }

    /// Takes the value at a path that a write or a conflict has revealed, which may be newer than all snapshots.
    mutating func learn(_ value: JSONValue?, at path: JSONPath, in position: Position) {
        begin(position)
        guard position.revision >= revision(at: path) else { return }
        entries[path] = value.map { Entry(value: $0, revision: position.revision) }
        deletions[path] = value == nil ? position.revision : nil
    }

    /// Takes the value at a path in a snapshot.
    /// - Returns: the newest known value, which may be newer than the snapshot.
    mutating func read(_ value: JSONValue?, at path: JSONPath, in position: Position) -> JSONValue? {
        begin(position)
        if position.revision >= revision(at: path) {
            entries[path] = value.map { Entry(value: $0, revision: position.revision) }
        }
        forgetDeletions(through: position.revision)
        return self.value(at: path)
    }

    /// Takes the whole collection in a snapshot.
    /// - Parameter members: the paths and values of the models, in order.
    /// - Returns: the newest known models in the same order. Models that are newer than the snapshot follow at the end.
    mutating func read(
        _ members: [(path: JSONPath, value: JSONValue)], in position: Position
    ) -> [(path: JSONPath, value: JSONValue)] {
        begin(position)
        var newer = entries.filter { $0.value.revision > position.revision }
        var newest: [(path: JSONPath, value: JSONValue)] = []
        var current: [JSONPath: Entry] = [:]
        current.reserveCapacity(members.count)
        for (path, value) in members {
            if let entry = newer.removeValue(forKey: path) {
                current[path] = entry
                newest.append((path, entry.value))
            } else if deletions[path].map({ $0 <= position.revision }) ?? true {
                current[path] = Entry(value: value, revision: position.revision)
                newest.append((path, value))
            }
        }
        for (path, entry) in newer.sorted(by: {
            ($0.value.revision, $0.key.pointer) < ($1.value.revision, $1.key.pointer)
        }) {
            current[path] = entry
            newest.append((path, entry.value))
        }
        entries = current
        forgetDeletions(through: position.revision)
        return newest
    }

    /// Forgets the values of another epoch, because their revisions cannot be compared.
    private mutating func begin(_ position: Position) {
        if epoch != position.epoch { self = KnownModels() }
        epoch = position.epoch
    }

    private func revision(at path: JSONPath) -> Int { entries[path]?.revision ?? deletions[path] ?? 0 }

    private mutating func forgetDeletions(through revision: Int) {
        if !deletions.isEmpty { deletions = deletions.filter { $0.value > revision } }
    }
}
