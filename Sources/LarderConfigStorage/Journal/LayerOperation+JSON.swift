package import LarderConfigModel
package import LarderJSON

// The JSON encoding of operations in the journal.

extension LayerOperation {
    init?(_ value: JSONValue) {
        if let entry = value["set"] {
            guard let entry = OverrideEntry(entry) else { return nil }
            self = .set(entry)
        } else if let path = value["unset"] {
            self = .unset(path: path.elements.compactMap(\.string))
        } else if let expired = value["expired"] {
            var overrides: [ExpiringOverride] = []
            for element in expired.elements {
                guard let path = element["path"], let end = element["expiresAt"]?.int else { return nil }
                overrides.append(ExpiringOverride(path: path.elements.compactMap(\.string), expiresAt: end))
            }
            self = .expireOverrides(overrides)
        } else if let time = value["expire"]?.int {
            self = .expire(at: time)
        } else if let remote = value["remote"] {
            guard let remote = RemoteDocument(remote) else { return nil }
            if let rollout = value["rollout"] {
                guard let revision = rollout["revision"]?.int, let since = rollout["since"]?.int else { return nil }
                self = .rollout(remote, revision: revision, since: since)
            } else {
                self = .remote(remote, endsHold: value["endsHold"]?.bool ?? false)
            }
        } else if value["dropRemote"] != nil {
            self = .dropRemote
        } else if let rollback = value["rollback"] {
            guard let override = rollback["override"].flatMap(OverrideLayer.init) else { return nil }
            var hold: RollbackHold?
            if let held = rollback["hold"] {
                hold = RollbackHold(held)
                if hold == nil { return nil }
            }
            self = .rollback(overrides: override, hold)
        } else if value["release"] != nil {
            self = .release
        } else if let layer = value["experiment"] {
            guard let layer = ExperimentLayer(layer) else { return nil }
            self = .experiment(layer)
        } else {
            return nil
        }
    }

    package func write(to writer: inout JSONWriter) {
        writer.beginObject()
        switch self {
        case .set(let entry):
            writer.name("set")
            entry.write(to: &writer)
        case .unset(let path):
            writer.name("unset")
            writer.beginArray()
            for name in path { writer.string(name) }
            writer.endArray()
        case .expireOverrides(let overrides):
            writer.name("expired")
            writer.beginArray()
            for override in overrides {
                writer.beginObject()
                writer.name("path")
                writer.beginArray()
                for name in override.path { writer.string(name) }
                writer.endArray()
                writer.member("expiresAt", override.expiresAt)
                writer.endObject()
            }
            writer.endArray()
        case .expire(let time): writer.member("expire", time)
        case .remote(let remote, let endsHold):
            writer.name("remote")
            remote.write(to: &writer)
            if endsHold { writer.member("endsHold", true) }
        case .rollout: preconditionFailure("this version of the program begins no rollouts")
        case .dropRemote: writer.member("dropRemote", true)
        case .rollback(let overrides, let hold):
            writer.name("rollback")
            writer.beginObject()
            writer.name("override")
            overrides.write(to: &writer)
            if let hold {
                writer.name("hold")
                hold.write(to: &writer)
            }
            writer.endObject()
        case .release: writer.member("release", true)
        case .experiment(let layer):
            writer.name("experiment")
            layer.write(to: &writer)
        }
        writer.endObject()
    }
}
