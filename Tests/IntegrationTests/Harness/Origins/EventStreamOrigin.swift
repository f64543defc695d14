import LarderJSON
import TestSupport

/// Event streams as responses of a ``RawOrigin``.
extension RawOrigin.Answer {
    /// An event stream that begins with `text` and stays open for ``RawOrigin/send(_:)``.
    static func stream(_ text: String = "") -> Self {
        .text("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n" + text)
    }

    /// This response with `Connection: close`. The connection closes after the response. The client therefore sends no
    /// further request on it, and later ``RawOrigin/send(_:)`` calls reach only event streams.
    var closing: Self {
        guard case .send(let bytes)? = steps?.first, let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            return self
        }
        return .bytes(bytes[...end] + Array("Connection: close\r\n".utf8) + bytes[(end + 1)...], thenClose: true)
    }
}

/// Returns an event in the `text/event-stream` format.
func event(_ data: String, type: String? = nil, id: String? = nil) -> String {
    let fields = [type.map { "event: \($0)\n" }, id.map { "id: \($0)\n" }].compactMap { $0 }.joined()
    return fields + data.split(separator: "\n").map { "data: \($0)\n" }.joined() + "\n"
}

extension RawOrigin {
    var streamURL: String { url + "events" }

    /// Waits for the next request for a path. Discards other requests.
    @discardableResult
    func request(for path: String) throws -> Request {
        while true {
            let request = try request()
            if request[":path"] == path { return request }
        }
    }
}

extension LineClient {
    /// Reads events until the value of an event is `value`.
    func events(until value: JSONValue) throws {
        while try event()["value"] != value {}
    }

    /// Requests the status of the default namespace until `condition` accepts it.
    @discardableResult
    func status(until condition: (JSONValue) -> Bool) throws -> JSONValue {
        var status: JSONValue = .null
        try call("config.status") { result in
            status = result["namespaces"]?[0] ?? .null
            return condition(status)
        }
        return status
    }
}
