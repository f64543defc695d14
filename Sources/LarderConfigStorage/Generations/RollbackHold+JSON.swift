package import LarderConfigModel
package import LarderJSON

// The JSON encoding of rollback holds and of the causes of snapshots.

extension RollbackHold: JSONWritable {
    package init?(_ value: JSONValue) {
        guard let revision = value["revision"]?.int, let since = value["since"]?.int else { return nil }
        self.init(revision: revision, since: since)
        if let refused = value["refused"] {
            guard let digest = refused["digest"]?.string, let source = refused["origin"]?.string else { return nil }
            let version = refused["version"]?.string.map {
                UpstreamVersion($0, series: refused["versionSeries"]?.string)
            }
            self.refused = Refused(version: version, digest: digest, source: source)
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
        refusal = value["refusal"]?.string
        // Earlier versions of this program recorded no rule. Their holds get the default rule.
        rule = value["rule"]?.string.flatMap(HoldRule.init) ?? defaultRule
    }

    package func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("revision", revision)
        writer.member("since", since)
        writer.member("rule", rule.rawValue)
        writer.member("by", peer)
        writer.member("refusal", refusal)
        if let refused {
            writer.name("refused")
            writer.beginObject()
            writer.member("version", refused.version?.text)
            writer.member("versionSeries", refused.version?.series)
            writer.member("digest", refused.digest)
            writer.member("origin", refused.source)
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
        writer.endObject()
    }
}

extension ChangeCause: JSONWritable {
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

    package func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("kind", kind.rawValue)
        writer.member("path", path)
        writer.member("revision", revision)
        writer.member("peer", peer)
        writer.member("origin", origin)
        writer.member("reason", reason)
        writer.endObject()
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
