import JSON
import LarderUpstream

// How layers look on disk: in a generation whole, in the journal as single operations.

extension Layers {
    init?(_ value: JSONValue) {
        guard value.kind == .object else { return nil }
        if let host = value["host"] {
            guard let document = host["document"], document.kind == .object, let updatedAt = host["updatedAt"]?.int
            else { return nil }
            self.host = Host(document: document, updatedAt: updatedAt)
        }
        if let remote = value["remote"] {
            guard let remote = Remote(remote) else { return nil }
            self.remote = remote
        }
        var entries: [OverrideLayer.Entry] = []
        for entry in (value["override"] ?? .array([])).elements {
            guard let entry = OverrideLayer.Entry(entry) else { return nil }
            entries.append(entry)
        }
        override = OverrideLayer(entries: entries)
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        if let host {
            writer.name("host")
            writer.beginObject()
            writer.member("updatedAt", host.updatedAt)
            writer.member("document", host.document)
            writer.endObject()
        }
        if let remote {
            writer.name("remote")
            remote.write(to: &writer)
        }
        writer.name("override")
        writer.beginArray()
        for entry in override.entries { entry.write(to: &writer) }
        writer.endArray()
        writer.endObject()
    }
}

extension Layers.Remote {
    init?(_ value: JSONValue) {
        guard let document = value["document"], document.kind == .object, let origin = value["origin"]?.string,
            let updatedAt = value["updatedAt"]?.int
        else { return nil }
        self.init(
            document: document,
            version: value["version"]?.string.map { UpstreamVersion($0, series: value["versionSeries"]?.string) },
            validator: Validator(etag: value["etag"]?.string, lastModified: value["lastModified"]?.string),
            origin: origin, updatedAt: updatedAt)
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("origin", origin)
        writer.member("updatedAt", updatedAt)
        writer.member("version", version?.text)
        writer.member("versionSeries", version?.series)
        writer.member("etag", validator?.etag)
        writer.member("lastModified", validator?.lastModified)
        writer.member("document", document)
        writer.endObject()
    }
}

extension OverrideLayer.Entry {
    init?(_ value: JSONValue) {
        guard let path = value["path"], path.kind == .array, let content = value["value"],
            let setAt = value["setAt"]?.int
        else { return nil }
        var names: [String] = []
        for name in path.elements {
            guard let name = name.string else { return nil }
            names.append(name)
        }
        self.init(path: names, value: content, setAt: setAt, expiresAt: value["expiresAt"]?.int)
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.name("path")
        writer.beginArray()
        for name in path { writer.string(name) }
        writer.endArray()
        writer.member("setAt", setAt)
        writer.member("expiresAt", expiresAt)
        writer.member("value", value)
        writer.endObject()
    }
}
