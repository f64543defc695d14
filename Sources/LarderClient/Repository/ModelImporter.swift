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
struct ModelImporter: Sendable {
    let client: LarderClient
    let namespace: String

    /// Sets the models of a chunk to their values. Models that already have their values are not sent.
    /// - Parameter known: the position of the previous chunk; nil for the first one.
    /// - Returns: the position that contains the models.
    func write(
        _ chunk: ModelChunk, since known: SnapshotReceiver.Position?
    ) async throws(LarderClientError) -> SnapshotReceiver.Position {
        // No copy has the empty epoch, so the first copy is requested from the agent. A cached copy may lack a change
        // that the agent has already acknowledged.
        var position = known ?? SnapshotReceiver.Position(revision: 0, epoch: "")
        // A new model is sent as one change, so that a request has as many models as possible. If overrides had hidden
        // values of lower layers at its path, these are merged into the new model. The second pass removes them.
        for _ in 0..<2 {
            let copy = try await client.config.localCopy(of: namespace, since: position)
            let chunks = try Self.chunks(of: chunk, over: copy)
            if chunks.isEmpty { return copy.position }
            for chunk in chunks {
                let change = try await client.call(
                    ConfigApply.self, ConfigApply.Parameters(chunk.changes, namespace: namespace))
                position = SnapshotReceiver.Position(revision: change.revision, epoch: change.epoch)
            }
        }
        return position
    }

    private static func chunks(
        of chunk: ModelChunk, over copy: MappedSnapshot
    ) throws(LarderClientError) -> [ChangeChunk] {
        var groups: [[ConfigApply.Change]] = []
        for (path, value) in chunk.models {
            let old = try copy.member(at: path)
            if old == value { continue }
            groups.append(
                old?.kind == .object
                    ? ModelChanges.exact(from: old, to: value, at: path.segments)
                    : [ConfigApply.Change(.set(value), at: path)])
        }
        return ChangeChunk.chunks(of: groups)
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
