package import LarderConfigModel
import LarderHTTPSemantics
package import LarderJSON

// The JSON encoding of layers. A generation contains all layers; the journal contains single operations.

extension Layers: JSONObjectWritable {
    package init?(_ value: JSONValue) {
        guard value.kind == .object else { return nil }
        self.init()
        for layer in FileLayer.allCases {
            guard let files = value[layer.rawValue] else { continue }
            guard let files = FileDocument(files) else { return nil }
            self[layer] = files
        }
        if let remote = value["remote"] {
            guard let remote = RemoteDocument(remote) else { return nil }
            self.remote = remote
        }
        guard let override = OverrideLayer(value["override"] ?? .array([])) else { return nil }
        self.override = override
        if let hold = value["hold"] {
            guard let hold = RollbackHold(hold) else { return nil }
            self.hold = hold
        }
        if let layer = value["experiment"] {
            guard let experiment = ExperimentLayer(layer) else { return nil }
            self.experiment = experiment
        }
        guard let locks = (value["locks"] ?? .array([])).elements.mapAll({ try? JSONPath($0) }) else { return nil }
        rules.locks = LockedPaths(locks)
    }

    func writeMembers(to writer: inout JSONWriter) {
        for layer in FileLayer.allCases {
            guard let files = self[layer] else { continue }
            writer.name(layer.rawValue)
            files.write(to: &writer)
        }
        writer.member("remote", remote)
        writer.member("override", override)
        writer.member("hold", hold)
        if !experiment.overlays.isEmpty { writer.member("experiment", experiment) }
        if !rules.locks.isEmpty { writer.member("locks", rules.locks.paths.map(\.segments)) }
    }
}

extension ExperimentLayer: JSONObjectWritable {
    package init?(_ value: JSONValue) {
        guard let list = value["overlays"], list.kind == .array else { return nil }
        self.init(updatedAt: value["updatedAt"]?.int)
        for overlay in list.elements {
            guard let name = overlay["name"]?.string, let values = overlay["values"], values.kind == .object,
                let isRemote = overlay["remote"]?.bool
            else { return nil }
            overlays.append(Overlay(name: name, values: values.detached(), isRemote: isRemote))
        }
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("updatedAt", updatedAt)
        writer.member("overlays", overlays)
    }
}

extension ExperimentLayer.Overlay: JSONObjectWritable {
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("name", name)
        writer.member("remote", isRemote)
        writer.member("values", values)
    }
}

extension FileDocument: JSONObjectWritable {
    package init?(_ value: JSONValue) {
        guard let document = value["document"], document.kind == .object, let updatedAt = value["updatedAt"]?.int
        else { return nil }
        let removals = value["removals"]
        if let removals, removals.kind != .object { return nil }
        self.init(removals: removals, document: document, updatedAt: updatedAt)
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("updatedAt", updatedAt)
        writer.member("removals", removals)
        writer.member("document", document)
    }
}

extension OverrideLayer: JSONWritable {
    package init?(_ value: JSONValue) {
        guard let entries = value.elements.mapAll(OverrideEntry.init) else { return nil }
        self.init(entries: entries)
    }

    package func write(to writer: inout JSONWriter) {
        entries.write(to: &writer)
    }
}

extension RemoteDocument: JSONObjectWritable {
    package init?(_ value: JSONValue) {
        guard let document = value["document"], document.kind == .object, let origin = value["origin"]?.string,
            let updatedAt = value["updatedAt"]?.int
        else { return nil }
        var experiments: (member: String, list: JSONValue)?
        if let declared = value["experiments"] {
            guard let member = declared["member"]?.string, let list = declared["list"] else { return nil }
            experiments = (member, list.detached())
        }
        let removals = value["removals"]
        if let removals, removals.kind != .object { return nil }
        let source = value["source"]?.string ?? origin
        let version = value["version"]?.string.map { UpstreamVersion($0, series: value["versionSeries"]?.string) }
        self.init(
            removals: removals, document: document, experiments: experiments, version: version,
            validator: Validator(
                etag: value["etag"]?.string, lastModified: value["lastModified"]?.string,
                url: value["validatorURL"]?.string),
            origin: origin, source: source, updatedAt: updatedAt, pushedBy: value["pushedBy"].flatMap(Peer.init),
            reason: value["reason"]?.string,
            seenVersions: value["seenVersions"].map(SeenVersions.init) ?? SeenVersions(of: version, from: source))
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("origin", origin)
        // Files that earlier versions of this program wrote do not have it, nor do pushed documents.
        writer.member("source", source == origin ? nil : source)
        writer.member("updatedAt", updatedAt)
        writer.member("version", version?.text)
        writer.member("versionSeries", version?.series)
        writer.member("etag", validator?.etag)
        writer.member("lastModified", validator?.lastModified)
        // Files that earlier versions of this program wrote do not have it. No request contains such a validator.
        writer.member("validatorURL", validator?.url)
        writer.member("pushedBy", pushedBy)
        writer.member("reason", reason)
        if let experiments {
            writer.name("experiments")
            writer.beginObject()
            writer.member("member", experiments.member)
            writer.member("list", experiments.list)
            writer.endObject()
        }
        // The seen versions are left out if they can be derived from `version` and `source`. Files that earlier
        // versions of this program wrote do not have them.
        if seenVersions != SeenVersions(of: version, from: source) { writer.member("seenVersions", seenVersions) }
        writer.member("removals", removals)
        writer.member("document", document)
    }
}

extension SeenVersions: JSONObjectWritable {
    package init(_ value: JSONValue) {
        self.init(
            highest: value["highest"]?.string.map { UpstreamVersion($0, series: value["highestSeries"]?.string) },
            source: value["source"]?.string)
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("highest", highest?.text)
        writer.member("highestSeries", highest?.series)
        writer.member("source", source)
    }
}

extension OverrideEntry: JSONObjectWritable {
    package init?(_ value: JSONValue) {
        guard let path = value["path"], path.kind == .array, let content = value["value"],
            let setAt = value["setAt"]?.int, let names = path.elements.mapAll(\.string)
        else { return nil }
        self.init(
            path: names, value: content, setAt: setAt, expiresAt: value["expiresAt"]?.int,
            setBy: value["setBy"].flatMap(Peer.init), reason: value["reason"]?.string)
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("path", path)
        writer.member("setAt", setAt)
        writer.member("expiresAt", expiresAt)
        writer.member("setBy", setBy)
        writer.member("reason", reason)
        writer.member("value", value)
    }
}

extension Peer: JSONObjectWritable {
    package init?(_ value: JSONValue) {
        guard let pid = value["pid"]?.int, let uid = value["uid"]?.int, let command = value["command"]?.string
        else { return nil }
        self.init(pid: pid, uid: uid, command: command, loginUID: value["loginUid"]?.int)
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("pid", pid)
        writer.member("uid", uid)
        writer.member("command", command)
        writer.member("loginUid", loginUID)
    }
}

/// A value that generations and the journal contain as JSON.
protocol JSONWritable {
    func write(to writer: inout JSONWriter)
}

/// A value that generations and the journal contain as a JSON object.
protocol JSONObjectWritable: JSONWritable {
    func writeMembers(to writer: inout JSONWriter)
}

extension JSONObjectWritable {
    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writeMembers(to: &writer)
        writer.endObject()
    }
}

extension String: JSONWritable {
    func write(to writer: inout JSONWriter) { writer.string(self) }
}

extension Array: JSONWritable where Element: JSONWritable {
    func write(to writer: inout JSONWriter) {
        writer.beginArray()
        for element in self { element.write(to: &writer) }
        writer.endArray()
    }
}

extension JSONWriter {
    /// Writes a value as a member. Nil writes no member.
    mutating func member(_ name: StaticString, _ value: (some JSONWritable)?) {
        guard let value else { return }
        self.name(name)
        value.write(to: &self)
    }
}

// The JSON encoding of rollback holds and of the causes of snapshots.

extension RollbackHold: JSONObjectWritable {
    package init?(_ value: JSONValue) {
        guard let revision = value["revision"]?.int, let since = value["since"]?.int else { return nil }
        self.init(revision: revision, since: since)
        if let rejected = value["refused"] {
            guard let digest = rejected["digest"]?.string, let source = rejected["origin"]?.string else { return nil }
            let version = rejected["version"]?.string.map {
                UpstreamVersion($0, series: rejected["versionSeries"]?.string)
            }
            self.rejected = Rejected(version: version, digest: digest, source: source)
        }
        for layer in FileLayer.allCases {
            guard let held = value[layer.rawValue] else { continue }
            let content = FileDocument(held)
            if !held.isNull, content == nil { return nil }
            files[layer] = Layer(content: content)
        }
        if let held = value["remote"] {
            remote = Layer(content: RemoteDocument(held))
            if !held.isNull, remote?.content == nil { return nil }
        }
        peer = value["by"].flatMap(Peer.init)
        rejection = value["refusal"]?.string
        // Earlier versions of this program recorded no rule. Their holds get the default rule.
        rule = value["rule"]?.string.flatMap(HoldRule.init) ?? defaultRule
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("revision", revision)
        writer.member("since", since)
        writer.member("rule", rule.rawValue)
        writer.member("by", peer)
        writer.member("refusal", rejection)
        if let rejected {
            writer.name("refused")
            writer.beginObject()
            writer.member("version", rejected.version?.text)
            writer.member("versionSeries", rejected.version?.series)
            writer.member("digest", rejected.digest)
            writer.member("origin", rejected.source)
            writer.endObject()
        }
        // A held layer without content is written as null.
        for layer in FileLayer.allCases {
            guard let held = files[layer] else { continue }
            writer.name(layer.rawValue)
            if let content = held.content { content.write(to: &writer) } else { writer.null() }
        }
        if let remote {
            writer.name("remote")
            if let content = remote.content { content.write(to: &writer) } else { writer.null() }
        }
    }
}

extension ChangeCause: JSONObjectWritable {
    /// The causes in an array. Kinds that this version of the program does not know are left out.
    package static func list(_ value: JSONValue?) -> [ChangeCause] {
        value?.elements.compactMap(ChangeCause.init) ?? []
    }

    package init?(_ value: JSONValue) {
        guard let kind = value["kind"]?.string.flatMap(Kind.init(stored:)) else { return nil }
        self.init(
            kind, path: value["path"].map { $0.elements.compactMap(\.string) }, revision: value["revision"]?.int,
            peer: value["peer"].flatMap(Peer.init), origin: value["origin"]?.string,
            reason: value["reason"]?.string)
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("kind", kind.rawValue)
        writer.member("path", path)
        writer.member("revision", revision)
        writer.member("peer", peer)
        writer.member("origin", origin)
        writer.member("reason", reason)
    }
}

extension ChangeCause.Kind {
    /// The kind with a name on disk; nil if this version of the program does not know it.
    fileprivate init?(stored name: String) {
        switch name {
        // Earlier versions of this program ended rollouts in these two ways.
        case "rolloutPublished": self = .release
        case "rolloutRolledBack": self = .rollback
        default: self.init(rawValue: name)
        }
    }
}
