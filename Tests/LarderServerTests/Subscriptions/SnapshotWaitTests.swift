import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore
import NIOEmbedded
import Testing

@testable import LarderServer

@Suite("Requests that wait for a condition")
struct SnapshotWaitTests {
    private static func line(_ id: Int, _ params: String) -> String {
        #"{"id":\#(id),"method":"config.wait","params":{\#(params)}}"# + "\n"
    }

    @Test("a condition of config.wait checks the value at its path, or the revision and epoch of the snapshot")
    func conditions() async throws {
        try await ConnectionFixture.with { _, context in
            let namespace = try #require(context.namespaces["default"])
            let path = JSONPath(["a"])
            func isMet(_ condition: ConfigWait.Condition, at path: JSONPath = path) -> Bool {
                let wait = SnapshotWait(ConfigWait.Parameters(condition, path: path), namespace.publication)
                return wait.result(in: namespace.publication.current) != nil
            }
            #expect(isMet(.exists(false)) && !isMet(.exists(true)))
            #expect(!isMet(.equals(1)) && isMet(.notEquals(1)))
            _ = try await namespace.store.set(path, to: ["x": 1, "y": 2], timeToLive: nil)
            #expect(isMet(.exists(true)) && !isMet(.exists(false)))
            #expect(isMet(.equals(["y": 2, "x": 1])) && !isMet(.notEquals(["y": 2, "x": 1])))
            #expect(isMet(.notEquals(["x": 1])) && !isMet(.equals(["x": 1])))
            let revision = namespace.publication.current.snapshot.revision
            #expect(isMet(.revisionAtLeast(revision, epoch: namespace.publication.epoch)))
            #expect(isMet(.revisionAtLeast(revision, epoch: nil)))
            #expect(!isMet(.revisionAtLeast(revision + 1, epoch: nil)))
            #expect(isMet(.revisionAtLeast(revision + 1, epoch: "0000000000000000")))
        }
    }

    @Test("a config.wait gets an error when its timeout ends, not earlier, and later requests are still served")
    func timeout() async throws {
        try await ConnectionFixture.with { client, _ in
            try await client.send(Self.line(1, #""path":"a","exists":true,"timeoutMilliseconds":1000"#))
            await client.eventLoop.advanceTime(by: .milliseconds(999))
            #expect(try await client.output().isEmpty)
            await client.eventLoop.advanceTime(by: .milliseconds(1))
            await client.eventLoop.run()
            let output = try await client.output()
            #expect(output.count == 1)
            #expect(output.first?.contains(#""name":"timeout""#) ?? false)
            try await client.send(#"{"id":2,"method":"agent.ping"}"# + "\n")
            #expect(try await client.output().count == 1)
        }
    }

    @Test("waiting requests count towards the limit of requests in flight")
    func limit() async throws {
        var limits = ConnectionLimits()
        limits.requestsInFlightPerConnection = 2
        try await ConnectionFixture.with(limits: limits) { client, _ in
            for id in 1...2 {
                try await client.send(
                    Self.line(id, #""path":"a","exists":true,"timeoutMilliseconds":\#(id)000"#))
            }
            try await client.send(#"{"id":3,"method":"agent.ping"}"# + "\n")
            await client.eventLoop.run()
            #expect(try await client.output().isEmpty)
            await client.eventLoop.advanceTime(by: .seconds(1))
            await client.eventLoop.run()
            let ids = try await client.output().map { try JSONValue(parsing: $0)["id"]?.int }
            #expect(ids == [1, 3])
        }
    }
}
