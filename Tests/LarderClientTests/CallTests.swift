import LarderJSON
import LarderClient
import LarderProtocol
import LarderTesting
import Synchronization
import Testing

@Suite("Calls on one connection", .timeLimit(.minutes(15)))
struct CallTests {
    @Test("replies reach their callers in any order")
    func repliesInAnyOrder() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let first = client.call("config.get", params: ["path": "a"])
            async let second = client.call("config.get", params: ["path": "b"])
            async let third = client.call("config.get", params: ["path": "c"])
            let connection = try await agent.accept()
            var requests: [ScriptedConnection.Request] = []
            for _ in 0..<3 { requests.append(try await connection.request("config.get")) }
            for request in requests.reversed() {
                try await connection.reply(request, ["echo": request.params?["path"] ?? .null])
            }
            let results = try await [first, second, third].map { $0["echo"]?.string }
            #expect(results == ["a", "b", "c"])
        }
    }

    @Test("replaceAll and unsetAll confirm a change of all overrides, without which the agent rejects it")
    func wholeDocument() async throws {
        let client = try await TestAgent(["a": 1, "b": 1]).client()
        try await client.config.set(2, at: "b")
        let unconfirmed = await error { try await client.call("config.set", params: ["path": "", "value": ["a": 2]]) }
        #expect(unconfirmed?.remoteError?.code == .invalidParams)
        #expect(try await client.config.replaceAll(with: ["a": 2]).hasEffect)
        #expect(try await client.config.snapshot().value == ["a": 2, "b": 1])
        #expect(try await client.config.unsetAll().hasEffect)
        #expect(try await client.config.snapshot().value == ["a": 1, "b": 1])
    }

    @Test("the agent's error arrives with its code, name and detail")
    func remoteError() async throws {
        let client = try await TestAgent().client()
        let failure = await error { try await client.config.value(at: "nope", as: Int.self) }
        #expect(failure?.code == .remote)
        #expect(failure?.remoteError?.code == .notFound)
        let detail = try #require(failure?.remoteError?.detail)
        #expect(detail.contains("nope"))
        #expect(failure?.description == "Not found: \(detail); correct the path, set a value, or pass default:")
    }

    @Test("a broken connection fails the calls in flight, and the next call connects again")
    func brokenConnection() async throws {
        let agent = try await TestAgent()
        let client = agent.client()
        agent.faults.delay = .seconds(1)
        async let one = error { try await client.agent.ping() }
        async let two = error { try await client.agent.ping() }
        try await agent.waitForDelayedMessages(2)
        await agent.disconnect()
        #expect(await one?.code == .disconnected)
        #expect(await two?.advice == "call agent.ping again")
        agent.faults.delay = .zero
        try await client.agent.ping()
    }

    @Test("a read-only call is retried once after a disconnect")
    func retriedRead() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let value = client.config.value(at: "search.limit", as: Int.self)
            let connection = try await agent.accept()
            _ = try await connection.request("config.get")
            connection.close()
            let next = try await agent.accept()
            try await next.reply(
                next.request("config.get"),
                ["value": 25, "revision": 2, "epoch": "00ff00ff00ff00ff", "state": "fresh"])
            #expect(try await value == 25)

            async let failure = error { try await client.config.value(at: "search.limit", as: Int.self) }
            _ = try await next.request("config.get")
            next.close()
            let last = try await agent.accept()
            _ = try await last.request("config.get")
            last.close()
            #expect(await failure?.code == .disconnected)
        }
    }

    @Test("reads of schemas and downloads are retried, too", arguments: ["config.schema", "image.downloads"])
    func retriedMethods(method: String) async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let result = client.call(method)
            let connection = try await agent.accept()
            _ = try await connection.request(method)
            connection.close()
            let next = try await agent.accept()
            try await next.reply(next.request(method), [:])
            #expect(try await result == [:])
        }
    }

    @Test("a change is not retried after a disconnect, because it may have been executed")
    func changeIsNotRetried() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let failure = error { try await client.call("config.set", params: ["path": "a", "value": 1]) }
            let connection = try await agent.accept()
            _ = try await connection.request("config.set")
            connection.close()
            let change = await failure
            #expect(change?.code == .disconnected)
            #expect(change?.advice == "config.set may have been executed: check its effect before you repeat it")
            #expect(change?.mayHaveBeenExecuted == true)
        }
    }

    @Test("an interrupted client fails the calls that wait for a reply, and the next call connects again")
    func interruption() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let reason = LarderClientError(.unreachable, "the service has failed", advice: "repair it")
            #expect(await !client.isAwaitingReply())
            async let read = error { try await client.call("config.get") }
            let connection = try await agent.accept()
            _ = try await connection.request("config.get")
            #expect(await client.isAwaitingReply())
            client.interrupt(reason)
            #expect(await read == reason)
            #expect(await !client.isAwaitingReply())

            async let change = error { try await client.call("config.set", params: ["path": "a", "value": 1]) }
            let next = try await agent.accept()
            _ = try await next.request("config.set")
            client.interrupt(reason)
            #expect(await change?.code == .unreachable)
            #expect(
                await change?.advice == "repair it; config.set may be executed when the agent starts: check its effect "
                    + "before you repeat it")
        }
    }

    @Test("reads with a maximum age leave a quarter of the slots to other calls")
    func longReads() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client { $0.maximumRequestsInFlight = 4 }
            try await withThrowingTaskGroup { group in
                for _ in 0..<2 {
                    group.addTask { _ = try? await client.config.snapshot(maximumAge: .zero) }
                    group.addTask { _ = try? await client.call("config.get", params: ["maximumAgeSeconds": 0]) }
                }
                let connection = try await agent.accept()
                for _ in 0..<3 { _ = try await connection.request("config.get") }
                async let ping: Void = client.agent.ping()
                try await connection.reply(connection.request("agent.ping"), ["pong": true])
                try await ping
                group.cancelAll()
            }
        }
    }

    @Test("waits and image calls leave a quarter of the slots to other calls, and further ones wait in the client")
    func longCalls() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client { $0.maximumRequestsInFlight = 4 }
            try await withThrowingTaskGroup { group in
                for method in ["config.wait", "image.get", "image.prefetch", "config.wait"] {
                    group.addTask { _ = try await client.call(method) }
                }
                let connection = try await agent.accept()
                var open: [ScriptedConnection.Request] = []
                for _ in 0..<3 { open.append(try await connection.request()) }
                async let ping: Void = client.agent.ping()
                try await connection.reply(connection.request("agent.ping"), ["pong": true])
                try await ping
                try await connection.reply(open[0], 0)
                open[0] = try await connection.request()
                for request in open { try await connection.reply(request, 0) }
                try await group.waitForAll()
            }
        }
    }

    @Test("at most maximumRequestsInFlight requests are in flight; after each reply, the client sends the next one")
    func limit() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client { $0.maximumRequestsInFlight = 2 }
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<6 {
                    group.addTask { _ = try? await client.call("echo", params: [.int(number)]) }
                }
                group.addTask {
                    do {
                        let connection = try await agent.accept()
                        var open = [try await connection.request(), try await connection.request()]
                        for _ in 0..<4 {
                            // Two requests are in flight, which is the limit. The client sends the next one only
                            // because of this reply.
                            try await connection.reply(open.removeFirst(), 0)
                            open.append(try await connection.request())
                        }
                        for request in open { try await connection.reply(request, 0) }
                    } catch {
                        Issue.record(error)
                    }
                }
            }
        }
    }

    @Test("a request that is unsent when the connection breaks is sent on the next connection")
    func unsentRequest() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client { $0.maximumRequestsInFlight = 1 }
            let first = Task { await error { try await client.agent.ping() } }
            let connection = try await agent.accept()
            _ = try await connection.request("agent.ping")
            let second = Task.immediate { try await client.call("second") }
            // `third` is queued after `second` on the same loop, so `second` is certain to be queued when `third` ends.
            let third = Task.immediate { await error { try await client.call("third") } }
            third.cancel()
            #expect(await third.value?.code == .cancelled)
            connection.close()
            #expect(await first.value?.code == .disconnected)
            let next = try await agent.accept()
            try await next.reply(next.request("second"), "done")
            #expect(try await second.value == "done")
        }
    }

    @Test("a request that is too long for the agent fails without affecting other requests")
    func lineTooLong() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let small: Void = client.agent.ping()
            let connection = try await agent.accept()
            let ping = try await connection.request("agent.ping")
            async let big = error {
                try await client.config.push(["text": .string(String(repeating: "x", count: 100_000))])
            }
            _ = try await connection.request("config.push")
            let tooLong = JSONValue.building { WireError(.lineTooLong, "over 1 MiB").write(to: &$0) }
            try await connection.send(#"{"jsonrpc":"2.0","id":null,"error":\#(tooLong)}"#)
            #expect(await big?.remoteError?.code == .lineTooLong)
            try await connection.reply(ping, ["pong": true])
            try await small
        }
    }

    @Test("a value that is too deep or too long is not sent, and the error names the limit; the connection stays open")
    func unacceptableValues() async throws {
        let client = try await TestAgent().client()
        try await client.agent.ping()
        let connection = try await client.call(AgentClients.self, NoParameters()).clients.map(\.id)
        let deepest = JSONValue.nested(126)
        try await client.config.set(deepest, at: "deep")
        #expect(try await client.config.snapshot(at: "deep").value == deepest)
        for depth in [127, 2000] {
            let deep = await error { try await client.config.set(.nested(depth), at: "deeper") }
            #expect(deep?.code == .invalidArgument)
            #expect(deep?.reason == "the parameters of config.set are nested deeper than 127 levels")
        }
        let text = String(repeating: "[", count: 2 << 20)
        let long = await error { try await client.config.set(.string(text), at: "long") }
        #expect(long?.code == .invalidArgument)
        #expect(long?.reason.contains("limit is 1048576") == true)
        try await client.config.set(.string(String(text.prefix(1_048_000))), at: "long")
        #expect(try await client.call(AgentClients.self, NoParameters()).clients.map(\.id) == connection)
    }

    /// A method that records whether its parameters are encoded on the main actor.
    private enum Probe: WireMethod {
        static let name = "probe"

        final class Encodings: Sendable {
            let onMain = Mutex<[Bool]>([])
        }

        struct Parameters: WireParameters {
            static var positional: [String] { [] }
            let valueSize: Int
            let encodings: Encodings

            init(valueSize: Int, _ encodings: Encodings) { (self.valueSize, self.encodings) = (valueSize, encodings) }

            init(from reader: MemberReader) throws(WireError) { throw WireError(.invalidParams, "only for clients") }

            func write(to writer: inout JSONWriter) {
                encodings.onMain.withLock { $0.append(MainQueue.isCurrent) }
                NoParameters().write(to: &writer)
            }
        }

        struct Result: WireResult {
            init(from value: JSONValue) throws(WireError) {}
            func write(to writer: inout JSONWriter) { NoParameters().write(to: &writer) }
        }
    }

    @Test("the parameters of a call are encoded on another thread than that of the main actor if they are large")
    @MainActor func largeParameters() async throws {
        MainQueue.mark()
        #expect(MainQueue.isCurrent)
        let client = try await TestAgent().client()
        let encodings = Probe.Encodings()
        for size in [0, 10_000] {
            let failure = await error { try await client.call(Probe.self, .init(valueSize: size, encodings)) }
            #expect(failure?.remoteError?.code == .methodNotFound)
        }
        #expect(encodings.onMain.withLock { $0 } == [true, false])

        let path = JSONPath(["a"])
        let value = JSONValue.string(String(repeating: "x", count: 10_000))
        let set = ConfigApply.Change(.set(value), at: path)
        let test = ConfigApply.Change(.test, at: path, ifValue: .equals(value))
        #expect(ConfigSet.Parameters(path: path, value: value).valueSize > 10_000)
        #expect(ConfigPush.Parameters(document: ["a": value]).valueSize > 10_000)
        #expect(ConfigApply.Parameters([set, test]).valueSize > 20_000)
        #expect(ConfigWait.Parameters(.equals(value), path: path).valueSize > 10_000)
        let image = ImageReference(url: "https://a/1.png")
        #expect(ImagePut.Parameters(image, .inline([UInt8](repeating: 0, count: 10_000))).valueSize == 10_000)
    }

    @Test("an error without an ID ends only the longest request, and without a request the connection")
    func discardedRequest() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let refused = JSONValue.building { WireError(.limitExceeded, "too much is buffered").write(to: &$0) }
            async let failure = error { try await client.agent.ping() }
            let connection = try await agent.accept()
            _ = try await connection.request("agent.ping")
            try await connection.send(#"{"jsonrpc":"2.0","id":null,"error":\#(refused)}"#)
            #expect(await failure?.remoteError?.code == .limitExceeded)
            async let ping: Void = client.agent.ping()
            try await connection.reply(connection.request("agent.ping"), ["pong": true])
            try await ping
            try await connection.send(#"{"jsonrpc":"2.0","id":null,"error":\#(refused)}"#)
            #expect(try await connection.line() == nil)
        }
    }

    @Test(
        "a protocol violation by the agent fails the call in flight",
        arguments: [
            "this is not JSON", #"{"jsonrpc":"2.0"}"#, "[]", "7", #"{"jsonrpc":"2.0","id":99,"result":{}}"#,
            #"{"jsonrpc":"2.0","id":"x","result":{}}"#, #"{"jsonrpc":"2.0","id":1}"#, "\u{0}",
            #"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}"#,
            #"{"jsonrpc":"2.0","method":"config.event","params":{"subscription":1}}"#,
            #"{"jsonrpc":"2.0","id":1,"result":{"pong":"yes"}}"#, String(repeating: "[", count: 300),
            String(repeating: " ", count: 2000),
        ])
    func malformed(line: String) async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client { $0.maximumReplyBytes = 1000 }
            async let failure = error { try await client.agent.ping() }
            let connection = try await agent.accept()
            _ = try await connection.request("agent.ping")
            try await connection.send(line)
            #expect(await failure?.code == .protocolViolation)
        }
    }

    @Test("unknown notifications and blank lines are ignored")
    func unknownNotification() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let ping: Void = client.agent.ping()
            let connection = try await agent.accept()
            let request = try await connection.request("agent.ping")
            try await connection.send("", "\r", #"{"jsonrpc":"2.0","method":"agent.news","params":{"x":1}}"#)
            try await connection.reply(request, ["pong": true, "since": 7])
            try await ping
        }
    }

    @Test("a request and a reply of several megabytes arrive intact")
    func largeMessages() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let text = JSONValue.string(String(repeating: "ä€😀\\\"", count: 300_000))
            async let echo = client.call("echo", params: [text])
            let connection = try await agent.accept()
            // The request is longer than the default limit, so the client first requests the limit of this agent.
            try await connection.reply(connection.request("agent.info"), ["limits": ["lineBytes": .int(64 << 20)]])
            let request = try await connection.request("echo")
            try await connection.reply(request, request.params?[0] ?? .null)
            #expect(try await echo == text)
        }
    }
}

extension JSONValue {
    /// Arrays that are nested a number of levels deep.
    static func nested(_ depth: Int) -> JSONValue {
        JSONValue.building { writer in
            for _ in 0..<depth { writer.beginArray() }
            for _ in 0..<depth { writer.endArray() }
        }
    }
}

/// The error that `body` throws; nil if it does not throw.
func error<R>(_ body: () async throws -> R) async -> LarderClientError? {
    do {
        _ = try await body()
        return nil
    } catch let error as LarderClientError {
        return error
    } catch {
        Issue.record("\(error) is not a LarderClientError")
        return nil
    }
}
