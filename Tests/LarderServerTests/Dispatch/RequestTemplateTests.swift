import LarderConfigModel
import LarderJSON
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("Request templates")
struct RequestTemplateTests {
    /// The template of a line (the text before the id, the id, the text after it), and whether the parsed message has
    /// its id at that position. Nil if the line has no template.
    private func parts(_ line: String) -> [String]? {
        Array(line.utf8).withUnsafeBytes { bytes in
            guard let template = RequestTemplate(bytes) else { return nil }
            let isConfirmed =
                (try? JSONValue(parsing: line)).map { template.confirms(idAt: $0.member("id")?.textRange) } ?? false
            return [template.head, template.id, template.rest].map { String(decoding: $0, as: UTF8.self) } + [
                "\(isConfirmed)"
            ]
        }
    }

    @Test(
        "a request line is split before and after its id",
        arguments: [
            (#"{"id":7,"method":"m"}"#, [#"{"id":"#, "7", #","method":"m"}"#, "true"]),
            (#"{"id": 70 ,"method":"m"}"#, [#"{"id": "#, "70", #" ,"method":"m"}"#, "true"]),
            (#"{"method":"m","id":"a-1"}"#, [#"{"method":"m","id":"#, #""a-1""#, "}", "true"]),
            (#"{"id":0}"#, [#"{"id":"#, "0", "}", "true"]),
            (#"{"id":""}"#, [#"{"id":"#, #""""#, "}", "true"]),
        ])
    func split(line: String, expected: [String]) { #expect(parts(line) == expected) }

    @Test(
        "text that only looks like the id of the message is not confirmed as the id",
        arguments: [
            #"{"params":{"id":1},"id":2}"#, #"{"id":1,"id":2}"#, #"{"id":1,"\u0069d":2}"#, #"{"id":1.5}"#,
            #"{"id":1e3}"#,
            #"{"x\"id":1,"id":2}"#, #"{"params":{"id":1}}"#, #"[{"id":1}]"#, #"{"id":1"#,
        ])
    func notTheID(line: String) { #expect(parts(line)?.last != "true") }

    @Test(
        "a request line has no template unless its id is a non-negative integer or a string of plain ASCII",
        arguments: [
            #"{"id":-1}"#, #"{"id":01}"#, #"{"id":null}"#, #"{"id":"a\n"}"#, #"{"id":"é"}"#, "{\"id\":\"\u{1}\"}",
            #"{"id":"a}"#, #"{"id":"#, #"{"id""#, "{}", "", #" {"id":1}"#, #"{"method":"m"}"#,
        ])
    func noTemplate(line: String) { #expect(parts(line) == nil) }

    @Test("replies to reads that differ only in the id have the correct ids, even if a line is invalid")
    func repeated() async throws {
        func read(_ id: String, _ rest: String) -> String { #"{"id":\#(id),"method":"config.get"\#(rest)}"# }
        let lines = [
            read("1", ""), read("2", ""), read(#""x""#, ""), read("01", ""), read("1.0", ""), read("\"\\u0041\"", ""),
            read("3", #","params":{"path":"none"}"#), read("4", #","params":{"path":"none"}"#), read("5", "}"),
            #"{"method":"config.get","id":6,"id":7}"#, #"{"method":"config.get","id":8,"id":7}"#,
        ]
        let replies = try await ConnectionFixture.exchange(lines.joined(separator: "\n"))
        let ids = try replies.map { try JSONValue(parsing: $0)["id"]?.compactText ?? "none" }
        #expect(ids == ["1", "2", "\"x\"", "null", "1.0", #""\u0041""#, "3", "4", "null", "null", "null"])
        // The ends of the two replies, after the id, are equal.
        #expect(replies[0].dropFirst(replies[0].count - 40) == replies[1].dropFirst(replies[1].count - 40))
    }

    @Test("repeated reads return the current value and state, and fail after the namespace is removed")
    func current() async throws {
        try await ConnectionFixture.with { client, context in
            let namespace = try #require(context.namespaces["default"])
            func read() async throws -> [JSONValue?] {
                var results: [JSONValue?] = []
                // The reply to the second request may come from the reply cache.
                for id in 1...2 {
                    let line = #"{"id":\#(id),"method":"config.get","params":{"path":"n"}}"# + "\n"
                    try await client.send(line)
                    let reply = try JSONValue(parsing: try await client.output()[0])
                    #expect(reply["id"]?.int == id)
                    results.append(reply["result"] ?? reply["error"]?["data"]?["name"])
                }
                #expect(results[0] == results[1])
                return results
            }
            #expect(try await read()[0] == "notFound")
            for value in 1...3 {
                let commit = try await namespace.store.set(try JSONPath("n"), to: .int(value), timeToLive: nil)
                let result = try await read()[1]
                #expect(result?["value"]?.int == value)
                #expect(result?["revision"]?.int == commit.revision)
                #expect(result?["state"] == "fresh")
            }
            await namespace.store.filesFailed(.host, "it cannot be read")
            #expect(try await read()[1]?["state"] == "stale")
            await context.namespaces.apply([])
            #expect(try await read()[1] == "unknownNamespace")
        }
    }
}
