import TestSupport

extension RawOrigin.Answer {
    /// Sends bytes and optionally closes the connection.
    static func bytes(_ bytes: [UInt8], thenClose: Bool) -> Self {
        Self(steps: [.send(bytes)] + (thenClose ? [.close] : []))
    }

    /// Sends a text unchanged and optionally closes the connection.
    static func text(_ text: String, thenClose: Bool = false) -> Self {
        .bytes(Array(text.utf8), thenClose: thenClose)
    }

    /// A valid response with `Content-Length`.
    static func status(_ status: String, _ body: String, fields: [String] = []) -> Self {
        let head = ["HTTP/1.1 \(status)", "Content-Length: \(body.utf8.count)"] + fields
        return .text(head.joined(separator: "\r\n") + "\r\n\r\n" + body)
    }

    /// A JSON document, with an entity tag if `etag` is not nil.
    static func document(_ body: String, etag: String? = nil) -> Self {
        let tag = etag.map { ["ETag: \"\($0)\""] } ?? []
        return .status("200 OK", body, fields: ["Content-Type: application/json"] + tag)
    }

    static func notModified(_ fields: String...) -> Self {
        .text((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")
    }
}

extension RawOrigin {
    var documentURL: String { url + "config.json" }
}
