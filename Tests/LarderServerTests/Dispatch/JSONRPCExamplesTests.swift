import LarderJSON
import LarderProtocol
import Testing

@testable import LarderServer

/// The examples of the JSON-RPC 2.0 specification, section 7, that call a method with parameters. The transcript
/// `json-rpc-specification.jsonl` has the other examples.
@Suite("Examples of the JSON-RPC 2.0 specification")
struct JSONRPCExamplesTests {
    @Test(
        "a call with positional or named parameters returns its result",
        arguments: [
            ("[42, 23]", 19), ("[23, 42]", -19), (#"{"subtrahend": 23, "minuend": 42}"#, 19),
            (#"{"minuend": 42, "subtrahend": 23}"#, 19),
        ])
    func parameters(text: String, difference: Int) async throws {
        var table = MethodRegistry()
        table.register(Subtract.self)
        let replies = try await ConnectionFixture.exchange(
            #"{"jsonrpc": "2.0", "method": "subtract", "params": \#(text), "id": 1}"#, with: table)
        #expect(
            try replies.map { try JSONValue(parsing: $0) } == [["jsonrpc": "2.0", "result": .int(difference), "id": 1]])
    }
}

private struct Number: WireResult {
    var value: Int
    init(value: Int) { self.value = value }
    init(from value: JSONValue) throws(WireError) { self.value = value.int ?? 0 }
    func write(to writer: inout JSONWriter) { writer.int(value) }
}

private enum Subtract: Method {
    static func call(_ call: MethodCall<Self>) -> Outcome<Number> {
        .now(Number(value: call.parameters.minuend - call.parameters.subtrahend))
    }

    static func requirement(_: Parameters) -> Requirement { .nothing }
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
