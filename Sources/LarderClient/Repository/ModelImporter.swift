import LarderJSON
import LarderProtocol

/// The models that an import saves together.
struct ModelChunk: Sendable {
    /// The number of models that were added, including those that later ones with the same id have replaced.
    private(set) var count = 0
    /// The paths and encoded values of the models, each path once.
    private(set) var models: [(path: JSONPath, value: JSONValue)] = []
    private var indexes: [JSONPath: Int] = [:]

    mutating func add(_ value: JSONValue, at path: JSONPath) {
        count += 1
        if let index = indexes[path] {
            models[index].value = value
        } else {
            indexes[path] = models.count
            models.append((path, value))
        }
    }
}

/// Writes chunks of models, whatever their current values are.
///
/// All chunks are compared with one copy of the namespace, because a copy of a large collection takes as long as several
/// chunks. Another copy is requested once another client has changed the namespace.
actor ModelImporter {
    private let calls: RepositoryCalls
    /// The copy that models are compared with; nil before the first chunk, and if it may be outdated.
    private(set) var copy: MappedSnapshot?
    /// The position that contains the models. No copy has the empty epoch, so the first copy is requested from the
    /// agent. A cached copy may lack a change that the agent has already acknowledged.
    private(set) var position = SnapshotReceiver.Position(revision: 0, epoch: "")
    /// The models that were written, or had their values already.
    private(set) var values: [JSONPath: JSONValue] = [:]
    /// The new models that are not compared with a copy yet.
    private var unchecked: [JSONPath] = []

    init(_ calls: RepositoryCalls) { self.calls = calls }

    /// Sets the models of a chunk to their values. Models that already have their values are not sent.
    func write(_ chunk: ModelChunk) async throws(LarderClientError) {
        let copy = try await currentCopy()
        var groups: [[ConfigApply.Change]] = []
        var new: [JSONPath] = []
        for (path, value) in chunk.models {
            let old = if let written = values[path] { written } else { try copy.member(at: path) as JSONValue? }
            if old == value { continue }
            if let old, old.kind == .object {
                groups.append(ModelChanges.exact(from: old, to: value, at: path.segments))
            } else {
                // A new model is sent as one change, so that a request has as many models as possible. If overrides had
                // hidden values of lower layers at its path, these are merged into the new model. ``check()`` removes
                // them.
                groups.append([ConfigApply.Change(.set(value), at: path)])
                new.append(path)
            }
        }
        let wasAlone = try await send(groups)
        for (path, value) in chunk.models { values[path] = value }
        unchecked += new
        if !wasAlone { try await check() }
    }

    /// Removes the members of lower layers that were merged into new models. It must be called after the last chunk.
    func check() async throws(LarderClientError) {
        if unchecked.isEmpty { return }
        let copy = try await calls.localCopy(since: position)
        self.copy = copy
        position = copy.position
        var groups: [[ConfigApply.Change]] = []
        for path in unchecked {
            // If a member differs, another client has changed the model since.
            guard let value = values[path], let found = try copy.member(at: path), found != value,
                found.hasMembers(of: value)
            else { continue }
            groups.append(ModelChanges.exact(from: found, to: value, at: path.segments))
        }
        unchecked = []
        _ = try await send(groups)
    }

    /// The paths and values of the models in a collection that were not imported.
    /// - Parameter segments: the path of the collection
    func others(at segments: [String]) async throws(LarderClientError) -> [(path: JSONPath, value: JSONValue)] {
        let copy = try await calls.localCopy(since: position)
        let members = try copy.member(at: JSONPath(segments))?.members ?? JSONValue.emptyObject.members
        return members.map { (JSONPath(segments + [$0.name]), $0.value) }.filter { values[$0.path] == nil }
    }

    /// Runs an operation in a separate task, so that a cancellation does not leave the result of a request unknown.
    static func uncancelled(
        _ body: @escaping @Sendable () async throws(LarderClientError) -> Void
    ) async throws(LarderClientError) {
        let task = Task { () async -> Result<Void, LarderClientError> in
            do throws(LarderClientError) {
                return .success(try await body())
            } catch {
                return .failure(error)
            }
        }
        try await task.value.get()
    }

    private func currentCopy() async throws(LarderClientError) -> MappedSnapshot {
        if let copy { return copy }
        let copy = try await calls.localCopy(since: position)
        self.copy = copy
        position = copy.position
        return copy
    }

    /// Sends changes.
    /// - Returns: whether no other client has published a snapshot in the meantime
    private func send(_ groups: [[ConfigApply.Change]]) async throws(LarderClientError) -> Bool {
        for chunk in ChangeChunk.chunks(of: groups) {
            let change = try await calls.apply(chunk.changes)
            if change.epoch != position.epoch || change.revision > position.revision + 1 { copy = nil }
            position = SnapshotReceiver.Position(revision: change.revision, epoch: change.epoch)
        }
        return copy != nil
    }
}

extension JSONValue {
    /// Whether this value is equal to another one, apart from members that the other one lacks.
    fileprivate func hasMembers(of other: JSONValue) -> Bool {
        guard kind == .object, other.kind == .object else { return self == other }
        return other.members.allSatisfy { name, value in self[name]?.hasMembers(of: value) ?? false }
    }
}

/// The changes that give a model a new value, although objects are merged with the values of lower layers.
enum ModelChanges {
    /// The maximum number of changes for one model, because `config.apply` also has a condition.
    private static let maxChanges = ConfigApply.Parameters.maxChanges - 1

    /// Returns the changes that turn the resolved value `old` into `new` and nothing else. They refine the overrides
    /// that exist, so the nulls in these still hide values of lower layers.
    ///
    /// An object that is new is preceded by a null, so that it is not merged with values of lower layers that are
    /// hidden now. Its members are set one by one, because an override for the whole object would replace the null.
    /// - Parameters:
    ///   - old: the current value; nil for none.
    ///   - new: the new value, without null members.
    static func exact(from old: JSONValue?, to new: JSONValue, at path: [String]) -> [ConfigApply.Change] {
        var changes: [ConfigApply.Change] = []
        add(from: old, to: new, at: path, to: &changes)
        guard changes.count > maxChanges else { return changes }
        changes = []
        add(from: nil, to: new, at: path, to: &changes)
        guard changes.count > maxChanges else { return changes }
        return [ConfigApply.Change(.set(new), at: JSONPath(path))]
    }

    private static func add(
        from old: JSONValue?, to new: JSONValue, at path: [String], to changes: inout [ConfigApply.Change]
    ) {
        if old == new { return }
        guard new.kind == .object, new.count > 0 || old?.kind == .object else {
            changes.append(ConfigApply.Change(.set(new), at: JSONPath(path)))
            return
        }
        guard let old, old.kind == .object else {
            changes.append(ConfigApply.Change(.set(.null), at: JSONPath(path)))
            for (name, value) in new.members {
                changes.append(ConfigApply.Change(.set(value), at: JSONPath(path + [name])))
            }
            return
        }
        for (name, value) in old.members {
            if let member = new[name] {
                add(from: value, to: member, at: path + [name], to: &changes)
            } else {
                changes.append(ConfigApply.Change(.set(.null), at: JSONPath(path + [name])))
            }
        }
        for (name, value) in new.members where old[name] == nil {
            add(from: nil, to: value, at: path + [name], to: &changes)
        }
    }

    /// Returns a resolved value with the differences between two encodings of its model. Members that the type of the
    /// model does not have stay as they are.
    /// - Parameters:
    ///   - resolved: the current value.
    ///   - before: the encoding of the model that was decoded from `resolved`.
    ///   - after: the encoding of the changed model.
    static func merged(_ resolved: JSONValue, before: JSONValue, after: JSONValue) -> JSONValue {
        if before == after { return resolved }
        guard resolved.kind == .object, before.kind == .object, after.kind == .object else { return after }
        var members: [(String, JSONValue)] = []
        for (name, value) in resolved.members {
            switch (before[name], after[name]) {
            case (nil, nil): members.append((name, value))
            case (_?, nil): break
            case (nil, let new?): members.append((name, new))
            case (let old?, let new?): members.append((name, merged(value, before: old, after: new)))
            }
        }
        for (name, new) in after.members where resolved[name] == nil && before[name] != new {
            members.append((name, new))
        }
        return .object(members)
    }
}
