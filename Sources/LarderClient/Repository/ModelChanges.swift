import LarderJSON
import LarderProtocol

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
