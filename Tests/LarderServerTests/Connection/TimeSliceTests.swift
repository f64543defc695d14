import LarderJSON
import Synchronization
import Testing

@testable import LarderServer

@Suite("Time slices of a connection")
struct TimeSliceTests {
    private final class Count: Sendable {
        private let count = Atomic<Int>(0)
        var value: Int { count.load(ordering: .relaxed) }
        func add() { count.add(1, ordering: .relaxed) }
    }

    /// The agent's methods, and `slow`, which takes longer than a time slice. `served` counts the calls of `slow`.
    private func methods(_ served: Count) -> MethodRegistry {
        var table = MethodRegistry.agent
        table.addSlow(served.add)
        return table
    }

    private func slow(_ id: Int) -> String { #"{"id":\#(id),"method":"slow"}"# }

    @Test("a burst of short requests is served 8 KiB at a time, in order")
    func shortRequests() async throws {
        let (requests, served) = (1200, Count())
        try await ConnectionFixture.with(methods(served)) { client, _ in
            // With this line length, the first 8 KiB end within a line.
            let lines = (0..<requests).map { "{\"id\":\(1000 + $0),\"method\":\"agent.ping\"}\n" }
            var counts = [0, try await client.sendAndServeOneSlice(lines.joined())]
            var replies: [String] = []
            while replies.count < requests {
                counts += try await client.serveAllSlices()
                #expect(zip(counts, counts.dropFirst()).allSatisfy { $1 - $0 <= 8192 / lines[0].utf8.count + 1 })
                // The connection pauses while the socket has no room for replies, and continues when the client has
                // read some.
                let more = try await client.output()
                if more.isEmpty { break }
                replies += more
                counts = []
            }
            #expect(try replies.map { try JSONValue(parsing: $0)["id"]?.int } == Array(1000..<1000 + requests))
        }
    }

    @Test("at most two long requests are served per time slice, in order")
    func longRequests() async throws {
        let served = Count()
        try await ConnectionFixture.with(methods(served)) { client, _ in
            let taken = try await client.sendAndServeOneSlice((0..<10).map { slow($0) + "\n" }.joined())
            #expect(taken > 0 && taken <= 2)
            #expect(served.value == taken)
            try await client.serveAllSlices()
            #expect(try await client.output().map { try JSONValue(parsing: $0)["id"]?.int } == Array(0..<10))
        }
    }

    @Test("a batch is served in several time slices and answered with one line; then the next line is served")
    func batch() async throws {
        let served = Count()
        try await ConnectionFixture.with(methods(served)) { client, _ in
            let batch = "[" + (0..<10).map(slow).joined(separator: ",") + "]\n"
            _ = try await client.sendAndServeOneSlice(batch + slow(10) + "\n")
            #expect(served.value > 0 && served.value <= 2)
            try await client.serveAllSlices()
            let lines = try await client.output().map { try JSONValue(parsing: $0) }
            #expect(lines.first?.elements.map { $0["id"]?.int } == Array(0..<10))
            #expect(lines.last?["id"]?.int == 10)
            #expect(lines.count == 2)
        }
    }

    @Test("all requests of a disconnected client are executed, even if the last has no line end")
    func disconnected() async throws {
        let served = Count()
        try await ConnectionFixture.with(methods(served)) { client, _ in
            try await client.sendAndDisconnect((0..<10).map(slow).joined(separator: "\n"))
            #expect(served.value == 10)
            #expect(try await client.isClosed)
        }
    }

    @Test("requests sent before a half-close are all answered")
    func halfClosed() async throws {
        let served = Count()
        let sent = (0..<10).map(slow).joined(separator: "\n")
        let replies = try await ConnectionFixture.exchange(sent, with: methods(served))
        #expect(replies.count == 10)
    }

    @Test("requests that follow a cancellation in the input are executed exactly once")
    func resumedOnce() async throws {
        // A reply that completes while the rest of the input is deferred must not resume that input a second time.
        let served = Count()
        try await ConnectionFixture.with(methods(served)) { client, _ in
            let wait = #"{"id":100,"method":"config.wait","params":{"path":"never","exists":true}}"#
            let cancel = #"{"id":101,"method":"request.cancel","params":{"id":100}}"#
            let lines = [wait, slow(0), cancel] + (1..<8).map(slow)
            _ = try await client.sendAndServeOneSlice(lines.map { $0 + "\n" }.joined())
            try await client.serveAllSlices()
            let ids = try await client.output().map { try JSONValue(parsing: $0)["id"]?.int }
            #expect(ids.compactMap { $0 }.filter { $0 < 100 } == Array(0..<8))
            #expect(Set(ids) == Set((0..<8).map { $0 } + [100, 101]))
            #expect(served.value == 8)
        }
    }
}
