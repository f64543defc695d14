import LarderJSON

/// Requests to the agent, as lines (Protocol/README.md).
enum LarderRequest {
    static func get(path: String, namespace: String, id: Int) -> [UInt8] {
        line("config.get", id: id, namespace: namespace, [("path", .string(path))])
    }

    static func set(path: String, namespace: String, value: JSONValue) -> [UInt8] {
        line("config.set", namespace: namespace, [("path", .string(path)), ("value", value)])
    }

    static func subscribe(path: String, namespace: String) -> [UInt8] {
        line("config.subscribe", namespace: namespace, [("path", .string(path))])
    }

    static func status(namespace: String) -> [UInt8] { line("config.status", namespace: namespace, []) }

    static func image(_ url: String, id: Int) -> [UInt8] { line("image.get", id: id, [("url", .string(url))]) }

    /// Whether a reply is an error. A reply has either a member `result` or a member `error`. The content of that
    /// member may contain the other name, so the name that occurs first in the reply decides.
    static func isError(_ reply: UnsafeRawBufferPointer) -> Bool {
        guard let error = ReplyText.offset(of: "\"error\":", in: reply) else { return false }
        guard let result = ReplyText.offset(of: "\"result\":", in: reply) else { return true }
        return error < result
    }

    /// Encodes a request. The namespace `default` is omitted, as clients do.
    private static func line(
        _ method: String, id: Int = 100, namespace: String = "default", _ parameters: [(String, JSONValue)]
    ) -> [UInt8] {
        let params = namespace == "default" ? parameters : [("namespace", .string(namespace))] + parameters
        let request = JSONValue.object([
            ("jsonrpc", "2.0"), ("id", .int(id)), ("method", .string(method)), ("params", .object(params)),
        ])
        return request.compactBytes + [UInt8(ascii: "\n")]
    }
}
