import JSON
import LarderWire
import Testing

@testable import LarderServer

/// The examples of the JSON-RPC 2.0 specification, section 7, with the methods that they call.
@Suite("The examples of the JSON-RPC 2.0 specification")
struct JSONRPCExamplesTests {
    /// Sends lines and compares the replies with what the specification prints. Our errors carry `data` besides.
    private func expect(_ sent: String, _ printed: [String]) async throws {
        let replies = try await SessionFixture.exchange(sent, with: .examples)
        #expect(replies.count == printed.count, "\(replies)")
        for (reply, expected) in zip(replies, printed) {
            #expect(
                withoutData(try JSONValue(parsing: reply)) == (try JSONValue(parsing: expected)),
                "\(reply) is not \(expected)")
        }
    }

    private func withoutData(_ reply: JSONValue) -> JSONValue {
        if reply.kind == .array { return .array(reply.elements.map(withoutData)) }
        guard let error = reply["error"] else { return reply }
        let bare = JSONValue.object(error.members.filter { $0.name != "data" }.map { ($0.name, $0.value) })
        return .object(reply.members.map { $0.name == "error" ? ("error", bare) : ($0.name, $0.value) })
    }

    @Test("rpc call with positional parameters")
    func positional() async throws {
        try await expect(
            #"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
            [#"{"jsonrpc": "2.0", "result": 19, "id": 1}"#])
        try await expect(
            #"{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}"#,
            [#"{"jsonrpc": "2.0", "result": -19, "id": 2}"#])
    }

    @Test("rpc call with named parameters")
    func named() async throws {
        try await expect(
            #"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
            [#"{"jsonrpc": "2.0", "result": 19, "id": 3}"#])
        try await expect(
            #"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}"#,
            [#"{"jsonrpc": "2.0", "result": 19, "id": 4}"#])
    }

    @Test("a notification")
    func notification() async throws {
        try await expect(#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#, [])
        try await expect(#"{"jsonrpc": "2.0", "method": "foobar"}"#, [])
    }

    @Test("rpc call of non-existent method")
    func unknownMethod() async throws {
        try await expect(
            #"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#,
            [#"{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}"#])
    }

    @Test("rpc call with invalid JSON")
    func invalidJSON() async throws {
        try await expect(
            #"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
            [#"{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}"#])
    }

    @Test("rpc call with invalid Request object")
    func invalidRequest() async throws {
        try await expect(
            #"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#,
            [#"{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}"#])
    }

    @Test("rpc call Batch, invalid JSON")
    func invalidBatch() async throws {
        try await expect(
            #"[ {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method" ]"#,
            [#"{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}"#])
    }

    @Test("rpc call with an empty Array")
    func emptyBatch() async throws {
        try await expect(
            "[]", [#"{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}"#])
    }

    @Test("rpc call with an invalid Batch, but not empty, and with several invalid entries")
    func batchOfGarbage() async throws {
        let refusal = #"{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}"#
        try await expect("[1]", ["[\(refusal)]"])
        try await expect("[1,2,3]", ["[\(refusal),\(refusal),\(refusal)]"])
    }

    @Test("rpc call Batch")
    func batch() async throws {
        let requests = [
            #"{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}"#,
            #"{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}"#,
            #"{"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"}"#, #"{"foo": "boo"}"#,
            #"{"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"}"#,
            #"{"jsonrpc": "2.0", "method": "get_data", "id": "9"}"#,
        ]
        let replies = [
            #"{"jsonrpc": "2.0", "result": 7, "id": "1"}"#, #"{"jsonrpc": "2.0", "result": 19, "id": "2"}"#,
            #"{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}"#,
            #"{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"}"#,
            #"{"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}"#,
        ]
        try await expect("[\(requests.joined(separator: ","))]", ["[\(replies.joined(separator: ","))]"])
    }

    @Test("rpc call Batch (all notifications)")
    func batchOfNotifications() async throws {
        try await expect(
            #"[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]}, {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]"#,
            [])
    }
}

extension MethodTable {
    /// The methods that the specification's examples call.
    fileprivate static var examples: MethodTable {
        var table = MethodTable()
        table.immediate(Subtract.self) { _, numbers in Number(value: numbers.minuend - numbers.subtrahend) }
        table.immediate(Sum.self) { _, numbers in Number(value: numbers.values.reduce(0, +)) }
        table.immediate(GetData.self) { _, _ in Words() }
        for notification in ["update", "notify_hello", "notify_sum"] {
            table.add(notification, .immediate { _, _, writer in writer.null() })
        }
        return table
    }
}

private struct Number: WireResult {
    var value: Int
    init(value: Int) { self.value = value }
    init(from value: JSONValue) throws(WireError) { self.value = value.int ?? 0 }
    func write(to writer: inout JSONWriter) { writer.int(value) }
}

private struct Words: WireResult {
    init() {}
    init(from value: JSONValue) throws(WireError) {}
    func write(to writer: inout JSONWriter) { writer.value(["hello", 5]) }
}

private enum Subtract: GuardedMethod {
    static func need(_: Parameters) -> Need { .nothing }
    static let name = "subtract"
    typealias Result = Number
    struct Parameters: WireParameters {
        var minuend: Int
        var subtrahend: Int
        static var positional: [String] { ["minuend", "subtrahend"] }
        init(from reader: MemberReader) throws(WireError) {
            minuend = try reader.requiredInt("minuend")
            subtrahend = try reader.requiredInt("subtrahend")
        }
        func write(to writer: inout JSONWriter) {}
    }
}

private enum Sum: GuardedMethod {
    static func need(_: Parameters) -> Need { .nothing }
    static let name = "sum"
    typealias Result = Number
    struct Parameters: WireParameters {
        var values: [Int] = []
        static var positional: [String] { ["a", "b", "c"] }
        init(from reader: MemberReader) throws(WireError) {
            for name in Self.positional { values.append(try reader.int(name) ?? 0) }
        }
        func write(to writer: inout JSONWriter) {}
    }
}

private enum GetData: GuardedMethod {
    static func need(_: Parameters) -> Need { .nothing }
    static let name = "get_data"
    typealias Result = Words
    typealias Parameters = NoParameters
}
