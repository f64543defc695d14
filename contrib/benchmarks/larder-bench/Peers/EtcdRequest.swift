import Foundation

/// Requests to the JSON gateway of etcd over HTTP (etcd.io/docs/v3.4/dev-guide/api_grpc_gateway) on a Unix socket.
enum EtcdRequest {
    /// Sets `key`. `value` must consist of base64 characters and is sent as base64 text without encoding it again, so
    /// that it can be found in the messages to watchers. The text is padded until it decodes to at least as many bytes
    /// as `value` has characters.
    static func put(key: String, value: String) -> [UInt8] {
        let count = (value.utf8.count + 2) / 3 * 4
        let text = value + String(repeating: "x", count: count - value.utf8.count)
        return post("/v3/kv/put", #"{"key":"\#(base64(key))","value":"\#(text)"}"#)
    }

    static func range(key: String) -> [UInt8] { post("/v3/kv/range", #"{"key":"\#(base64(key))"}"#) }

    /// Watches `key` from now on. The response does not end.
    static func watch(key: String) -> [UInt8] {
        post("/v3/watch", #"{"create_request":{"key":"\#(base64(key))"}}"#)
    }

    /// Whether a frame is the head of an unsuccessful response, or an error message of a stream.
    static func isError(_ frame: UnsafeRawBufferPointer) -> Bool {
        if frame.first == UInt8(ascii: "H") { return ReplyText.offset(of: " 200 OK\r\n", in: frame) == nil }
        return ReplyText.offset(of: "{\"error\":", in: frame) != nil
    }

    private static func base64(_ text: String) -> String { Data(text.utf8).base64EncodedString() }

    private static func post(_ target: String, _ body: String) -> [UInt8] {
        let head =
            "POST \(target) HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n"
        return Array((head + body).utf8)
    }
}
