import LarderJSON
import LarderProtocol
import NIOCore
import Synchronization
import Testing

@testable import LarderServer

/// How much of what a client sends is served before the others of its event loop are.
@Suite("A connection's turn")
struct TimeSliceTests {
    /// How often something was done.
    private final class Count: Sendable {
        private let count = Atomic<Int>(0)
        var value: Int { count.load(ordering: .relaxed) }
        func add() { count.add(1, ordering: .relaxed) }
    }

    /// The agent's methods, and `slow`, which takes longer than a turn.
    private func methods(_ served: Count) -> MethodRegistry {
        var table = MethodRegistry.agent
        table.addSlow(served.add)
        return table
    }

    private func slow(_ id: Int) -> String { #"{"id":\#(id),"method":"slow"}"# }

    @Test("short requests that came at once are served a piece of the input at a time, and all of them")
    func shortRequests() async throws {
        let (requests, served) = (1200, Count())
        try await ConnectionFixture.with(methods(served)) { client, _ in
            // Of a length at which the pieces end within a line.
            let lines = (0..<requests).map { "{\"id\":\(1000 + $0),\"method\":\"agent.ping\"}\n" }
            var counts = [0, try await client.sendAndTakeTurn(lines.joined())]
            var replies: [String] = []
            while replies.count < requests {
                counts += try await client.takeTurns()
                #expect(zip(counts, counts.dropFirst()).allSatisfy { $1 - $0 <= 8192 / lines[0].utf8.count + 1 })
                // It goes on when there is room for replies.
                let more = try await client.output()
                if more.isEmpty { break }
                replies += more
                counts = []
            }
            #expect(try replies.map { try JSONValue(parsing: $0)["id"]?.int } == Array(1000..<1000 + requests))
        }
    }

    @Test("requests that take long are served a few a turn, in their order")
    func longRequests() async throws {
        let served = Count()
        try await ConnectionFixture.with(methods(served)) { client, _ in
            let taken = try await client.sendAndTakeTurn((0..<10).map { slow($0) + "\n" }.joined())
            #expect(taken > 0 && taken <= 2)
            #expect(served.value == taken)
            try await client.takeTurns()
            #expect(try await client.output().map { try JSONValue(parsing: $0)["id"]?.int } == Array(0..<10))
        }
    }

    @Test("so are those of a batch, whose replies are one line all the same, and what is behind it waits")
    func batch() async throws {
        let served = Count()
        try await ConnectionFixture.with(methods(served)) { client, _ in
            let batch = "[" + (0..<10).map(slow).joined(separator: ",") + "]\n"
            _ = try await client.sendAndTakeTurn(batch + slow(10) + "\n")
            #expect(served.value > 0 && served.value <= 2)
            try await client.takeTurns()
            let lines = try await client.output().map { try JSONValue(parsing: $0) }
            #expect(lines.first?.elements.map { $0["id"]?.int } == Array(0..<10))
            #expect(lines.last?["id"]?.int == 10)
            #expect(lines.count == 2)
        }
    }

    @Test("what a client that is gone left behind is carried out to its end, without a line end too")
    func gone() async throws {
        let served = Count()
        try await ConnectionFixture.with(methods(served)) { client, _ in
            try await client.sendAndLeave((0..<10).map(slow).joined(separator: "\n"))
            #expect(served.value == 10)
            #expect(try await client.isClosed)
        }
    }

    @Test("what a client sent before it ended its input is answered to the last line")
    func halfClosed() async throws {
        let served = Count()
        let sent = (0..<10).map(slow).joined(separator: "\n")
        let replies = try await ConnectionFixture.exchange(sent, with: methods(served))
        #expect(replies.count == 10)
    }

    @Test("a client that cancels finds what it sent behind it carried out once")
    func resumedOnce() async throws {
        // A reply that comes while the rest of the input waits for its turn does not have it looked at twice.
        let served = Count()
        try await ConnectionFixture.with(methods(served)) { client, _ in
            let wait = #"{"id":100,"method":"config.wait","params":{"path":"never","exists":true}}"#
            let cancel = #"{"id":101,"method":"request.cancel","params":{"id":100}}"#
            let lines = [wait, slow(0), cancel] + (1..<8).map(slow)
            _ = try await client.sendAndTakeTurn(lines.map { $0 + "\n" }.joined())
            try await client.takeTurns()
            let ids = try await client.output().map { try JSONValue(parsing: $0)["id"]?.int }
            #expect(ids.compactMap { $0 }.filter { $0 < 100 } == Array(0..<8))
            #expect(Set(ids) == Set((0..<8).map { $0 } + [100, 101]))
            #expect(served.value == 8)
        }
    }
}
