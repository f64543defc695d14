import Glibc
import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import Testing

@testable import LarderServer

@Suite("Connections")
struct ConnectionTests {
    private func replies(_ sent: String) async throws -> [JSONValue] {
        try await ConnectionFixture.exchange(sent).map { try JSONValue(parsing: $0) }
    }

    @Test("a last line without a line end is served, and the connection closes after the last reply")
    func oneShot() async throws {
        let replies = try await ConnectionFixture.exchange(#"{"id":1,"method":"agent.ping"}"#)
        #expect(replies == [#"{"jsonrpc":"2.0","id":1,"result":{"pong":true}}"#])
    }

    @Test("immediate replies arrive in the order of the requests")
    func order() async throws {
        let requests = (0..<100).map { #"{"id":\#($0),"method":"agent.ping"}"# }.joined(separator: "\n")
        #expect(try await replies(requests).map { $0["id"]?.int } == Array(0..<100))
    }

    @Test("replies do not depend on how the input is split into pieces")
    func anySplit() async throws {
        let bytes = Array("{\"id\":1,\"method\":\"agent.ping\"}\r\n\n[]\n{\"id\":2,\"method\":\"config.get\"}".utf8)
        let methods = MethodRegistry.agent
        let whole = try await ConnectionFixture.exchange([bytes], with: methods)
        #expect(whole.count == 3)
        let single = try await ConnectionFixture.exchange(bytes.map { [$0] }, with: methods)
        #expect(single.prefix(2) == whole.prefix(2))
        #expect(single.count == 3)
    }

    @Test("a client that passes unwanted descriptors is served, and the descriptors are closed")
    func passedDescriptors() async throws {
        var ends: [CInt] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { for end in ends where end >= 0 { close(end) } }
        let given = ends[1]
        let lines = (1...5).map { "{\"id\":\($0),\"method\":\"agent.ping\"}\n" }
        let replies = try await ConnectionFixture.with { client, _ in
            // Each line carries a descriptor, so one recvmsg(2) returns bytes of only one of these lines.
            try await client.send(lines, passing: given)
            return try await client.output()
        }
        #expect(try replies.map { try JSONValue(parsing: $0)["id"]?.int } == Array(1...5))
        close(ends[1])
        ends[1] = -1
        var byte: UInt8 = 0
        #expect(read(ends[0], &byte, 1) == 0, "the agent still has a copy of the other end")
    }

    @Test("bad JSON, bad UTF-8 and overlong lines get errors without an id, and the connection continues")
    func badInput() async throws {
        var limits = ConnectionLimits()
        limits.lineBytes = 1024
        let bad: [[UInt8]] = [
            Array("{bad\n".utf8), [0x22, 0xFF, 0x22, 0x0A], [UInt8](repeating: 0x78, count: 5000) + [0x0A],
            Array(String(repeating: "[", count: 200).utf8) + [0x0A],
        ]
        let replies = try await ConnectionFixture.exchange(
            bad + [Array("{\"id\":1,\"method\":\"agent.ping\"}\n".utf8)], limits: limits
        ).map { try JSONValue(parsing: $0) }
        #expect(replies.count == 5)
        for reply in replies.dropLast() {
            #expect(reply["id"] == .null)
            #expect(reply["error"]?["code"]?.int == -32700)
        }
        #expect(replies[2]["error"]?["data"]?["name"]?.string == "lineTooLong")
        #expect(replies.last?["result"]?["pong"]?.bool == true)
    }

    @Test("a batch of more than 64 requests is rejected as a whole")
    func batchLimit() async throws {
        let request = #"{"id":1,"method":"agent.ping"}"#
        let allowed = Array(repeating: request, count: 64).joined(separator: ",")
        #expect(try await replies("[\(allowed)]").first?.count == 64)
        let refused = try await replies("[\(allowed),\(request)]")
        #expect(refused.first?["error"]?["code"]?.int == -32600)
    }

    @Test("if a method fails while it writes its result, the reply has only the error")
    func rollback() async throws {
        var table = MethodRegistry()
        table.add(
            "half",
            { (writer) throws(WireError) in
                writer.beginObject()
                writer.member("a", 1)
                throw WireError(.notFound, "nothing there")
            })
        let replies = try await ConnectionFixture.exchange(
            "{\"id\":1,\"method\":\"half\"}\n{\"id\":2,\"method\":\"half\"}", with: table)
        #expect(replies.count == 2)
        #expect(try JSONValue(parsing: replies[1])["error"]?["data"]?["name"]?.string == "notFound")
    }

    @Test(
        "once a batch is answered, its bytes no longer count as queued, even if a notification completed the batch"
    )
    func usageOfBatch() async throws {
        try await ConnectionFixture.with { client, context in
            let store = try #require(context.namespaces["default"]).store
            let large = JSONValue.string(String(repeating: "x", count: 100_000))
            _ = try await store.set(JSONPath(["large"]), to: large, timeToLive: nil)
            let id = String(repeating: "i", count: 100_000)
            let set = #"{"method":"config.set","params":{"path":"n","value":1}}"#
            try await client.send(#"[\#(set),{"id":"\#(id)","method":"config.get","params":{"path":"large"}}]"# + "\n")
            var lines: [String] = []
            while lines.isEmpty {
                try await client.serveAllSlices()
                lines = try await client.output()
            }
            let batch = try JSONValue(parsing: lines[0])
            #expect(batch.elements.map { $0["id"]?.string } == [id])
            #expect(batch.elements.map { $0["result"]?["value"] } == [large])
            var limits = ConnectionLimits()
            limits.queuedBytesPerUser = 0
            #expect(!client.usage.exceedsQueuedBytes(limits))
            limits.queuedBytesPerUser = -1
            #expect(client.usage.exceedsQueuedBytes(limits))
        }
    }

    @Test("a read in a batch returns the value at the time of its execution, even if the reply is delayed")
    func largeInBatch() async throws {
        try await ConnectionFixture.with { client, context in
            let store = try #require(context.namespaces["default"]).store
            let (old, new) = (String(repeating: "o", count: 100_000), String(repeating: "n", count: 200_000))
            _ = try await store.set(JSONPath(["large"]), to: .string(old), timeToLive: nil)
            let wait = #"{"id":1,"method":"config.wait","params":{"path":"never","exists":true}}"#
            let reads = (2...3).map { #"{"id":\#($0),"method":"config.get","params":{"path":"large"}}"# }
            try await client.send("[\(wait),\(reads[0]),\(reads[1]),{\"id\":4,\"method\":\"agent.ping\"}]\n")
            // The two values that were read count as queued bytes, although the batch has not been answered.
            #expect(!client.usage.exceedsQueuedBytes(ConnectionLimits()))
            var limits = ConnectionLimits()
            limits.queuedBytesPerUser = 199_999
            #expect(client.usage.exceedsQueuedBytes(limits))
            _ = try await store.set(JSONPath(["large"]), to: .string(new), timeToLive: nil)
            try await client.send(#"{"id":5,"method":"request.cancel","params":{"id":1}}"# + "\n")
            let replies = try await client.output().map { try JSONValue(parsing: $0) }
            let batch = try #require(replies.first { $0.kind == .array }).elements.map { $0 }
            #expect(batch.map { $0["id"]?.int } == [1, 2, 3, 4])
            #expect(batch[1...2].allSatisfy { $0["result"]?["value"]?.string == old })
            #expect(batch[3]["result"]?["pong"] == true)
            limits.queuedBytesPerUser = 0
            #expect(!client.usage.exceedsQueuedBytes(limits))
        }
    }

    @Test("the reply to config.subscribe precedes the first event, even in a batch", arguments: [false, true])
    func replyBeforeEvent(inBatch: Bool) async throws {
        let subscribe = #"{"id":1,"method":"config.subscribe"}"#
        let unsubscribe = #"{"id":2,"method":"config.unsubscribe","params":[1]}"#
        let sent = inBatch ? "[\(subscribe)]\n\(unsubscribe)" : "\(subscribe)\n\(unsubscribe)"
        let lines = try await replies(sent)
        #expect(lines.count == 3)
        let reply = inBatch ? lines[0][0] : lines[0]
        #expect(reply?["result"]?["subscription"]?.int == 1)
        #expect(lines[1]["method"]?.string == "config.event")
        #expect(lines[1]["params"]?["sequence"]?.int == 1)
        #expect(lines[1]["params"]?["reason"]?.string == "initial")
        #expect(lines[2]["result"]?["subscription"]?.int == 1)
    }

    @Test("rpc.discover describes every method")
    func discover() async throws {
        let document = try await replies(#"{"id":1,"method":"rpc.discover"}"#)[0]["result"]
        let methods = document?["methods"]?.elements.compactMap { $0["name"]?.string } ?? []
        #expect(methods.sorted() == MethodRegistry.agent.names)
    }

    @Test(
        "all lines of a client are executed, even if it disconnects before they are read",
        arguments: [false, true])
    func disconnectedBeforeRead(leavingReplies: Bool) async throws {
        try await ConnectionFixture.with { client, context in
            let publication = try #require(context.namespaces["default"]).publication
            let next = Task { await publication.snapshots().first { $0.value["last"] != nil } }
            let first = #"{"method":"config.set","params":["first",1]}"#
            let last = #"{"method":"config.set","params":["last",2]}"#
            if leavingReplies {
                try await client.send(#"{"id":1,"method":"agent.ping"}"# + "\n")
                try await client.sendAndExit(first + "\n" + last)
            } else {
                try await client.sendAndDisconnect(first + "\n" + last)
            }
            #expect(try await client.isClosed)
            // Ends the wait for the value if the value is never published.
            let deadline = Task {
                try await Task.sleep(for: .seconds(60))
                next.cancel()
            }
            #expect(await next.value?.value == ["first": 1, "last": 2])
            deadline.cancel()
        }
    }

    @Test("a last line that cancels the only pending request gets its reply before the connection closes")
    func cancellationByLastLine() async throws {
        try await ConnectionFixture.with { client, context in
            let store = try #require(context.namespaces["default"]).store
            // A task creates the file of a large snapshot, and a later loop iteration sends the reply with the file.
            // Both lines are served before that, so the first request is still pending when it is cancelled.
            let text = String(repeating: "x", count: SnapshotFiles.maxInlineBytes)
            _ = try await store.set(JSONPath(["a"]), to: .string(text), timeToLive: nil)
            let open = #"{"id":1,"method":"config.open"}"#
            let cancel = #"{"id":2,"method":"request.cancel","params":{"id":1}}"#
            _ = try await client.sendAndServeOneSlice(open + "\n" + cancel)
            try await client.endInput()
            let replies = try await client.output().map { try JSONValue(parsing: $0) }
            #expect(replies.map { $0["id"]?.int } == [1, 2])
            #expect(replies.first?["error"]?["data"]?["name"]?.string == "cancelled")
            #expect(try await client.isClosed)
        }
    }
}
