import LarderJSON

/// Requests to the agent, as lines (Protocol/README.md).
enum LarderRequest {
    static func get(path: String, namespace: String, id: Int) -> [UInt8] {
        line("config.get", id: id, [("namespace", namespace), ("path", path)])
    }

    static func set(path: String, namespace: String, value: String) -> [UInt8] {
        line("config.set", id: 100, [("namespace", namespace), ("path", path), ("value", value)])
    }

    /// Sets a value.
    /// - Parameter json: the JSON text of the value
    static func set(path: String, namespace: String, json: [UInt8]) -> [UInt8] {
        line("config.set", id: 100, [("namespace", namespace), ("path", path)], ending: ("value", json))
    }

    static func subscribe(path: String, namespace: String) -> [UInt8] {
        line("config.subscribe", id: 100, [("namespace", namespace), ("path", path)])
    }

    static func status(namespace: String) -> [UInt8] {
        line("config.status", id: 100, [("namespace", namespace)])
    }

    static func image(_ url: String, id: Int) -> [UInt8] {
        line("image.get", id: id, [("url", url)])
    }

    /// Whether a reply is an error. A reply has either a member `result` or a member `error`. The content of that
    /// member may contain the other name, so the name that occurs first in the reply decides.
    static func isError(_ reply: UnsafeRawBufferPointer) -> Bool {
        guard let error = ReplyText.offset(of: "\"error\":", in: reply) else { return false }
        guard let result = ReplyText.offset(of: "\"result\":", in: reply) else { return true }
        return error < result
    }

    /// Encodes a request. The namespace `default` is omitted, as clients do.
    /// - Parameter last: the name and the JSON text of the last parameter
    private static func line(
        _ method: String, id: Int, _ members: [(name: String, text: String)], ending last: (String, [UInt8])? = nil
    ) -> [UInt8] {
        var bytes = line(method, id: id, members)
        guard let (name, json) = last else { return bytes }
        // Removes the two closing braces and the LF, which are appended again after the last parameter.
        bytes.removeLast(3)
        if !members.isEmpty, bytes.last != UInt8(ascii: "{") { bytes.append(UInt8(ascii: ",")) }
        return bytes + Array("\"\(name)\":".utf8) + json + Array("}}\n".utf8)
    }

    private static func line(_ method: String, id: Int, _ members: [(name: String, text: String)]) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("jsonrpc", "2.0")
        writer.member("id", id)
        writer.member("method", method)
        writer.name("params")
        writer.beginObject()
        for member in members where member.name != "namespace" || member.text != "default" {
            writer.name(member.name)
            writer.string(member.text)
        }
        writer.endObject()
        writer.endObject()
        return writer.bytes + [UInt8(ascii: "\n")]
    }
}
