public import LarderJSON

extension ConfigExplain.Result {
    public init(from value: JSONValue) throws(WireError) {
        let reader = try MemberReader(object: value)
        var layers: [ConfigExplain.Layer] = []
        for layer in try reader.requiredValue("layers").elements { layers.append(try ConfigExplain.Layer(layer)) }
        self.init(
            path: try reader.requiredString("path"), namespace: try reader.requiredString("namespace"),
            revision: try reader.requiredInt("revision"), epoch: try reader.requiredString("epoch"),
            value: try reader.requiredBool("exists") ? try reader.requiredValue("value") : nil,
            winner: try reader.string("winner"), isMasked: try reader.bool("masked") ?? false,
            lock: try reader.object("lock").map(ConfigExplain.Lock.init), layers: layers)
    }

    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("path", path)
        writer.member("namespace", namespace)
        writer.member("revision", revision)
        writer.member("epoch", epoch)
        writer.member("exists", value != nil)
        writer.member("value", value)
        writer.nullableMember("winner", winner)
        if isMasked { writer.member("masked", true) }
        if let lock {
            writer.name("lock")
            lock.write(to: &writer)
        }
        writer.name("layers")
        writer.beginArray()
        for layer in layers { layer.write(to: &writer) }
        writer.endArray()
        writer.endObject()
    }
}

extension ConfigExplain.Lock {
    init(_ reader: MemberReader) throws(WireError) {
        self.init(
            path: try reader.requiredString("path"), file: try reader.string("file"), line: try reader.int("line"),
            settings: try reader.string("settings"))
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("path", path)
        writer.member("file", file)
        writer.member("line", line)
        writer.nullableMember("settings", settings)
        writer.endObject()
    }
}

extension ConfigExplain.Layer {
    init(_ value: JSONValue) throws(WireError) {
        let reader = try MemberReader(object: value)
        self.init(
            name: try reader.requiredString("layer"),
            value: try reader.requiredBool("exists") ? try reader.requiredValue("value") : nil,
            isMasked: try reader.bool("masked") ?? false, isHiding: try reader.bool("hidden") ?? false,
            source: try reader.object("source").map(ConfigExplain.Source.init),
            since: try reader.object("since").map(ConfigExplain.Since.init),
            heldRevision: try reader.object("held").map { (held) throws(WireError) in
                try held.requiredInt("revision")
            })
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("layer", name)
        writer.member("exists", value != nil)
        writer.member("value", value)
        if isMasked { writer.member("masked", true) }
        if isHiding { writer.member("hidden", true) }
        if let source {
            writer.name("source")
            source.write(to: &writer)
        }
        if let since {
            writer.name("since")
            since.write(to: &writer)
        }
        if let heldRevision {
            writer.name("held")
            writer.beginObject()
            writer.member("revision", heldRevision)
            writer.endObject()
        }
        writer.endObject()
    }
}

extension ConfigExplain.Source {
    init(_ reader: MemberReader) throws(WireError) {
        self.init(
            kind: try reader.requiredString("kind"), location: try reader.string("location"),
            file: try reader.string("file"), line: try reader.int("line"), key: try reader.string("key"),
            version: try reader.string("version"), experiment: try reader.string("experiment"),
            peer: try reader.object("peer").map { (peer) throws(WireError) in try WirePeer(from: peer) },
            expiresAt: try reader.timestamp("expiresAt"))
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("kind", kind)
        writer.member("location", location)
        writer.member("file", file)
        writer.member("line", line)
        writer.member("key", key)
        writer.member("version", version)
        writer.member("experiment", experiment)
        if let peer {
            writer.name("peer")
            peer.write(to: &writer)
        }
        writer.member("expiresAt", expiresAt?.description)
        writer.endObject()
    }
}

extension ConfigExplain.Since {
    init(_ reader: MemberReader) throws(WireError) {
        self.init(
            revision: try reader.requiredInt("revision"), at: try reader.requiredTimestamp("at"),
            orEarlier: try reader.bool("orEarlier") ?? false)
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("revision", revision)
        writer.member("at", at.description)
        if orEarlier { writer.member("orEarlier", true) }
        writer.endObject()
    }
}
