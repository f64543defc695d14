import LarderJSON
import LarderClient
import TestSupport
import Testing

extension Integration {
    @Suite("Mapped snapshots", .timeLimit(.minutes(30)))
    struct MappedSnapshotTests {
        @Test(
            "a snapshot stays readable after its agent has stopped, and the stream continues with the next agent")
        func restart() async throws {
            try await AgentHome.with { home in
                let first = try home.start()
                let client = LarderClient(socket: home.socket)
                try await client.config.set(1, at: "n")
                var snapshots = client.config.mappedSnapshots().makeAsyncIterator()
                let snapshot = try #require(try await snapshots.next())
                #expect(snapshot.isCurrent)
                #expect(try first.stop() == .exit(0))
                while snapshot.isCurrent { await Task.yield() }
                #expect(try snapshot.int(at: "n") == 1)
                let second = try home.start()
                let again = LarderClient(socket: home.socket)
                try await again.config.set(2, at: "n")
                #expect(try await snapshots.next()?.int(at: "n") == 2)
                #expect(try second.stop() == .exit(0))
            }
        }

        @Test(
            "through a relay that passes no descriptors, a mapped snapshot fails with advice, and a copy succeeds"
        )
        func relayed() async throws {
            try await AgentHome.with(starting: true) { home in
                let relayed = "\(home.directory)/relayed.sock"
                let relay = try ChildProcess(
                    "socat", ["-d", "-d", "UNIX-LISTEN:\(relayed),fork", "UNIX-CONNECT:\(home.socket)"])
                defer { relay.kill() }
                try relay.waitForLog("listening on")
                let client = LarderClient(socket: relayed)
                try await client.config.set(1, at: "n")
                let error = await #expect(throws: LarderClientError.self) {
                    try await client.config.mappedSnapshot()
                }
                #expect(error?.code == .protocolViolation && error?.advice?.contains("sharesMemory: false") == true)
                let snapshot = try await client.config.mappedSnapshot(sharesMemory: false)
                #expect(try snapshot.int(at: "n") == 1 && snapshot.isCurrent)
                try await client.config.set(2, at: "n")
                while snapshot.isCurrent { await Task.yield() }
                #expect(try await client.config.mappedSnapshot(sharesMemory: false).int(at: "n") == 2)
            }
        }
    }
}
