import LarderJSON
import TestSupport

/// The words of event streams, for a ``RawOrigin``.
extension RawOrigin.Answer {
    /// A stream that begins with a text and goes on with what is sent later.
    static func stream(_ text: String = "") -> Self {
        .text("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n" + text)
    }

    /// The same answer, behind which the connection ends, and which says so: what is sent later goes to the streams alone,
    /// and no other request to this connection.
    var closing: Self {
        guard case .send(let bytes)? = steps?.first, let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            return self
        }
        return .bytes(bytes[...end] + Array("Connection: close\r\n".utf8) + bytes[(end + 1)...], thenClose: true)
    }
}

/// An event as a stream carries it.
func event(_ data: String, type: String? = nil, id: String? = nil) -> String {
    let fields = [type.map { "event: \($0)\n" }, id.map { "id: \($0)\n" }].compactMap { $0 }.joined()
    return fields + data.split(separator: "\n").map { "data: \($0)\n" }.joined() + "\n"
}

extension RawOrigin {
    /// The address of a stream.
    var streamURL: String { url + "events" }

    /// The next request for a path.
    @discardableResult
    func request(for path: String) throws -> Request {
        while true {
            let request = try request()
            if request[":path"] == path { return request }
        }
    }
}

extension LineClient {
    /// Takes events until one has this value.
    func events(until value: JSONValue) throws {
        while try event()["value"] != value {}
    }

    /// Asks for the status of the default namespace until it is as it has to become.
    @discardableResult
    func status(until isRight: (JSONValue) -> Bool) throws -> JSONValue {
        var status: JSONValue = .null
        try call("config.status") { result in
            status = result["namespaces"]?[0] ?? .null
            return isRight(status)
        }
        return status
    }
}
