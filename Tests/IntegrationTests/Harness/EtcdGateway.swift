import Foundation
import LarderJSON
import TestSupport

/// Speaks to an etcd member over its JSON gateway, in plain blocking calls.
struct EtcdGateway {
    let port: Int
    /// What to show where the cluster wants to know who asks.
    var token: String?

    /// What etcd refused.
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

    /// Puts a value.
    /// - Returns: the revision of that.
    @discardableResult
    func put(_ key: String, _ value: String) throws -> Int {
        try revision(call("/v3/kv/put", ["key": .string(Self.base64(key)), "value": .string(Self.base64(value))]))
    }

    /// Puts many values, some at a time.
    func put(_ values: [(String, String)]) throws {
        for start in stride(from: 0, to: values.count, by: 100) {
            let puts = values[start..<min(start + 100, values.count)].map { key, value -> JSONValue in
                ["requestPut": ["key": .string(Self.base64(key)), "value": .string(Self.base64(value))]]
            }
            try call("/v3/kv/txn", ["success": .array(puts)])
        }
    }

    /// Deletes a key, or with a slash at its end everything below it.
    @discardableResult
    func delete(_ key: String) throws -> Int {
        var members: [(String, JSONValue)] = [("key", .string(Self.base64(key)))]
        if key.hasSuffix("/") { members.append(("range_end", .string(Self.base64(key.dropLast() + "0")))) }
        return try revision(call("/v3/kv/deleterange", .object(members)))
    }

    /// Forgets all revisions before one.
    func compact(_ revision: Int) throws {
        try call("/v3/kv/compaction", ["revision": .string("\(revision)"), "physical": true])
    }

    // MARK: Users

    /// Makes a user who may read keys below a prefix, and root, and has the cluster ask for passwords from now on.
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

    /// The same gateway as root.
    func asRoot() throws -> EtcdGateway {
        let answer = try call("/v3/auth/authenticate", ["name": "root", "password": "root-password"])
        return EtcdGateway(port: port, token: try require(answer["token"]?.string, "token"))
    }

    // MARK: Calls

    /// Asks and waits for the answer.
    @discardableResult
    func call(_ path: String, _ body: JSONValue) throws -> JSONValue {
        let socket = try Descriptor.connected(toPort: port)
        let text = body.compactText
        // With HTTP/1.0 the answer is not chunked and ends with its connection.
        var head = "POST \(path) HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: \(text.utf8.count)\r\n"
        if let token { head += "Authorization: \(token)\r\n" }
        let request = Array((head + "\r\n" + text).utf8)
        guard send(socket.number, request, request.count, CInt(MSG_NOSIGNAL)) == request.count else {
            throw HarnessError.system("send to etcd")
        }
        let reader = LineReader(socket)
        var lines: [String] = []
        while let line = try reader.line(until: .usual, "etcd to answer") {
            lines.append(String(decoding: line, as: UTF8.self))
        }
        let status = lines.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        let answer = lines.drop { $0 != "\r" }.dropFirst().joined(separator: "\n")
        guard status == 200 else { throw Refusal(status: status, body: answer) }
        return try JSONValue(parsing: answer)
    }

    private func revision(_ answer: JSONValue) throws -> Int {
        try require(answer["header"]?["revision"]?.string.flatMap { Int($0) }, "revision")
    }

    private static func base64(_ text: String) -> String { Data(text.utf8).base64EncodedString() }
}
