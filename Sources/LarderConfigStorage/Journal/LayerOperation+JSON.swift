package import LarderConfigModel
package import LarderJSON

// The JSON encoding of operations in the journal.

extension LayerOperation: JSONWritable {
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
        case .set(let entry): writer.member("set", entry)
        case .unset(let path): writer.member("unset", path)
        case .expireOverrides(let overrides): writer.member("expired", overrides)
        case .expire(let time): writer.member("expire", time)
        case .remote(let remote, let endsHold):
            writer.member("remote", remote)
            if endsHold { writer.member("endsHold", true) }
        case .rollout: preconditionFailure("this version of the program begins no rollouts")
        case .dropRemote: writer.member("dropRemote", true)
        case .rollback(let overrides, let hold):
            writer.name("rollback")
            writer.beginObject()
            writer.member("override", overrides)
            writer.member("hold", hold)
            writer.endObject()
        case .release: writer.member("release", true)
        case .experiment(let layer): writer.member("experiment", layer)
        }
        writer.endObject()
    }
}

extension ExpiringOverride: JSONWritable {
    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("path", path)
        writer.member("expiresAt", expiresAt)
        writer.endObject()
    }
}
