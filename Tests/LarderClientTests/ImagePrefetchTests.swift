import LarderJSON
import LarderClient
@testable import LarderClientCore
import LarderProtocol
import Testing

@Suite("Image prefetches", .timeLimit(.minutes(15)))
struct ImagePrefetchTests {
    private let summary: JSONValue = [
        "total": 4, "fetched": 2, "cached": 1, "failed": 1, "bytes": 9,
        "failures": [["url": "b", "name": "offline", "detail": "no route"]],
    ]

    private let image = LarderImageRequest("a")

    private func progress(_ request: ScriptedConnection.Request, done: Int) -> String {
        let params = #"{"request":\#(request.id ?? .null),"done":\#(done),"failed":0,"bytes":0,"total":4}"#
        return #"{"jsonrpc":"2.0","method":"image.progress","params":\#(params)}"#
    }

    @Test("a prefetch returns the progress, then the summary, then ends")
    func steps() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            var steps = client.images.prefetch(
                [LarderImageRequest("a"), LarderImageRequest("b", cacheKey: "k")], concurrency: 3
            ).makeAsyncIterator()
            let scripted = Task { () async throws -> (ScriptedConnection, ScriptedConnection.Request) in
                let connection = try await agent.accept()
                let request = try await connection.request("image.prefetch")
                try await connection.send(progress(request, done: 1))
                return (connection, request)
            }
            let first = try await steps.next()
            let (connection, request) = try await scripted.value
            #expect(request.params == ["urls": ["a", ["url": "b", "cacheKey": "k"]], "concurrency": 3])
            guard case .progress(let progress) = first else { return #expect(Bool(false), "\(first as Any)") }
            #expect(progress.done == 1 && progress.total == 4)
            try await connection.reply(request, summary)
            let second = try await steps.next()
            guard case .finished(let result) = second else { return #expect(Bool(false), "\(second as Any)") }
            #expect(result.downloaded == 2 && result.failures.first?.error.code == .offline)
            let third = try await steps.next()
            #expect(third == nil)
        }
    }

    @Test("a slow consumer gets the newest progress, and always the summary")
    func newest() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let steps = client.images.prefetch([image]).reduce(into: []) { $0.append($1) }
            let connection = try await agent.accept()
            let request = try await connection.request("image.prefetch")
            #expect(request.params == ["urls": ["a"]])
            for done in 1...3 { try await connection.send(progress(request, done: done)) }
            try await connection.reply(request, summary)
            let last = try await steps.last
            guard case .finished(let result) = last else { return #expect(Bool(false), "\(last as Any)") }
            #expect(result.total == 4)
            let done = try await steps.compactMap { step -> Int? in
                if case .progress(let progress) = step { progress.done } else { nil }
            }
            #expect(done == done.sorted())
        }
    }

    @Test("cancelling the task of a prefetch cancels the request")
    func cancelled() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let task = Task { await error { for try await _ in client.images.prefetch([image]) {} } }
            let connection = try await agent.accept()
            let request = try await connection.request("image.prefetch")
            try await connection.send(progress(request, done: 1))
            task.cancel()
            #expect(await task.value?.code == .cancelled)
            #expect(try await connection.request("request.cancel").params?["id"] == request.id)
            // Later messages for the request are ignored.
            try await connection.send(progress(request, done: 2))
            try await connection.fail(request, .cancelled, "1 of 4 was complete")
            async let ping: Void = client.agent.ping()
            try await connection.reply(connection.request("agent.ping"), ["pong": true])
            try await ping
        }
    }

    @Test("leaving the loop over a prefetch cancels the request")
    func left() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let task = Task {
                for try await _ in client.images.prefetch([image]) { break }
            }
            let connection = try await agent.accept()
            let request = try await connection.request("image.prefetch")
            try await connection.send(progress(request, done: 1))
            #expect(try await connection.request("request.cancel").params?["id"] == request.id)
            try await task.value
        }
    }

    @Test("an error of the agent or a disconnect ends the prefetch", arguments: [false, true])
    func failed(disconnected: Bool) async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let failure = error { for try await _ in client.images.prefetch([image]) {} }
            let connection = try await agent.accept()
            let request = try await connection.request("image.prefetch")
            if disconnected {
                connection.close()
                #expect(await failure?.code == .disconnected)
            } else {
                try await connection.fail(request, .unavailable, "no image cache")
                #expect(await failure?.remoteError?.code == .unavailable)
            }
        }
    }

    @Test("a malformed progress message closes the connection; progress of a request that is not a prefetch is ignored")
    func invalidProgress() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let failure = error { try await client.agent.ping() }
            let connection = try await agent.accept()
            let request = try await connection.request("agent.ping")
            try await connection.send(progress(request, done: 1))
            try await connection.send(#"{"jsonrpc":"2.0","method":"image.progress","params":{"request":"x"}}"#)
            #expect(await failure?.code == .protocolViolation)
        }
    }
}
