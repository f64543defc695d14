import TestSupport

extension RawOrigin.Answer {
    /// Sends bytes, and closes the connection or keeps it.
    static func bytes(_ bytes: [UInt8], thenClose: Bool) -> Self {
        Self(steps: [.send(bytes)] + (thenClose ? [.close] : []))
    }

    /// A text as it is; then the connection is kept or closed.
    static func text(_ text: String, thenClose: Bool = false) -> Self {
        .bytes(Array(text.utf8), thenClose: thenClose)
    }

    /// An answer as a well-behaved origin gives it.
    static func status(_ status: String, _ body: String, fields: [String] = []) -> Self {
        let head = ["HTTP/1.1 \(status)", "Content-Length: \(body.utf8.count)"] + fields
        return .text(head.joined(separator: "\r\n") + "\r\n\r\n" + body)
    }

    /// A document with its entity tag.
    static func document(_ body: String, etag: String? = nil) -> Self {
        let tag = etag.map { ["ETag: \"\($0)\""] } ?? []
        return .status("200 OK", body, fields: ["Content-Type: application/json"] + tag)
    }

    /// "What you have is current."
    static func notModified(_ fields: String...) -> Self {
        .text((["HTTP/1.1 304 Not Modified"] + fields).joined(separator: "\r\n") + "\r\n\r\n")
    }
}

extension RawOrigin {
    /// The address of a document.
    var documentURL: String { url + "config.json" }
}
