import Foundation
import LarderJSON
import TestSupport

/// A client of the JSON gateway of an etcd member, with blocking calls.
struct EtcdGateway {
    let port: Int
    /// The authentication token. Nil for a cluster without authentication.
    var token: String?

    /// A response with a status other than 200.
    struct Refusal: Error, CustomStringConvertible {
        let status: Int
        let body: String
        var description: String { "etcd answered \(status): \(body)" }
    }

    init(port: Int, token: String? = nil) {
        self.port = port
        self.token = token
    }

    // MARK: Keys

    /// Sets a key. Returns the revision of the change.
    @discardableResult
    func put(_ key: String, _ value: String) throws -> Int {
        try revision(call("/v3/kv/put", ["key": .string(Self.base64(key)), "value": .string(Self.base64(value))]))
    }

    /// Puts many values, in transactions of at most 100.
    func put(_ values: [(String, String)]) throws {
        for start in stride(from: 0, to: values.count, by: 100) {
            let puts = values[start..<min(start + 100, values.count)].map { key, value -> JSONValue in
                ["requestPut": ["key": .string(Self.base64(key)), "value": .string(Self.base64(value))]]
            }
            try call("/v3/kv/txn", ["success": .array(puts)])
        }
    }

    /// Deletes `key`, or all keys that begin with `key` if it ends with a slash. Returns the revision of the change.
    @discardableResult
    func delete(_ key: String) throws -> Int {
        var members: [(String, JSONValue)] = [("key", .string(Self.base64(key)))]
        if key.hasSuffix("/") { members.append(("range_end", .string(Self.base64(key.dropLast() + "0")))) }
        return try revision(call("/v3/kv/deleterange", .object(members)))
    }

    /// Compacts the history: discards all revisions before `revision`.
    func compact(_ revision: Int) throws {
        try call("/v3/kv/compaction", ["revision": .string("\(revision)"), "physical": true])
    }

    // MARK: Users

    /// Creates root and a user that can read the keys below a prefix, then turns on authentication.
    func enableAuthentication(user: String, password: String, prefix: String) throws {
        try call("/v3/auth/user/add", ["name": "root", "password": "root-password"])
        try call("/v3/auth/role/add", ["name": "root"])
        try call("/v3/auth/user/grant", ["user": "root", "role": "root"])
        try call("/v3/auth/role/add", ["name": "reader"])
        try call(
            "/v3/auth/role/grant",
            [
                "name": "reader",
                "perm": [
                    "permType": "READ", "key": .string(Self.base64(prefix)),
                    "range_end": .string(Self.base64(prefix.dropLast() + "0")),
                ],
            ])
        try call("/v3/auth/user/add", ["name": .string(user), "password": .string(password)])
        try call("/v3/auth/user/grant", ["user": .string(user), "role": "reader"])
        try call("/v3/auth/enable", [:])
    }

    /// Returns a gateway that is authenticated as root.
    func asRoot() throws -> EtcdGateway {
        let response = try call("/v3/auth/authenticate", ["name": "root", "password": "root-password"])
        return EtcdGateway(port: port, token: try require(response["token"]?.string, "token"))
    }

    // MARK: Calls

    /// Sends a request and waits for the response.
    /// - Throws: ``Refusal`` if the status is not 200.
    @discardableResult
    func call(_ path: String, _ body: JSONValue) throws -> JSONValue {
        let socket = try Descriptor.connected(toPort: port)
        let text = body.compactText
        // Uses HTTP/1.0, so that the response is not chunked and ends when the server closes the connection.
        var head = "POST \(path) HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: \(text.utf8.count)\r\n"
        if let token { head += "Authorization: \(token)\r\n" }
        let request = Array((head + "\r\n" + text).utf8)
        guard send(socket.number, request, request.count, CInt(MSG_NOSIGNAL)) == request.count else {
            throw HarnessError.system("send to etcd")
        }
        let reader = LineReader(socket)
        var lines: [String] = []
        while let line = try reader.line(until: .usual, "a response from etcd") {
            lines.append(String(decoding: line, as: UTF8.self))
        }
        let status = lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        let responseBody = lines.drop { $0 != "\r" }.dropFirst().joined(separator: "\n")
        guard status == 200 else { throw Refusal(status: status, body: responseBody) }
        return try JSONValue(parsing: responseBody)
    }

    private func revision(_ response: JSONValue) throws -> Int {
        try require(response["header"]?["revision"]?.string.flatMap { Int($0) }, "revision")
    }

    private static func base64(_ text: String) -> String { Data(text.utf8).base64EncodedString() }
}
