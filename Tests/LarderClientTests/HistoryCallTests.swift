import LarderJSON
import LarderClient
@testable import LarderClientCore
import Testing

@Suite("Calls for history and changes", .timeLimit(.minutes(15)))
struct HistoryCallTests {
    /// Makes a call, to which the agent replies with `answer`.
    /// - Returns: the parameters that the agent received, and the result of the call
    private func call<Result: Sendable>(
        _ method: String, answer: JSONValue, _ body: @escaping @Sendable (ConfigClient) async throws -> Result
    ) async throws -> (params: JSONValue?, result: Result) {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let result = body(client.config)
            let connection = try await agent.accept()
            let request = try await connection.request(method)
            try await connection.reply(request, answer)
            return (request.params, try await result)
        }
    }

    @Test("`explain` returns the value of each layer, its source and its age")
    func explain() async throws {
        let answer = try JSONValue(
            parsing: #"""
                {"path":"search.limit","namespace":"web","revision":41,"epoch":"e","exists":true,"value":20,
                 "winner":"override","layers":[
                  {"layer":"host","exists":true,"value":10,"source":{"kind":"file","file":"/etc/a.json","line":3},
                   "since":{"revision":7,"at":"2026-01-31T12:00:00.000Z","orEarlier":true}},
                  {"layer":"override","exists":true,"value":20,
                   "source":{"kind":"set","peer":{"pid":1,"uid":2,"command":"larder"}}}]}
                """#)
        let (params, result) = try await call("config.explain", answer: answer) {
            try await $0["web"].explain(at: "search.limit")
        }
        #expect(params == ["path": "/search/limit", "namespace": "web"])
        #expect(result.winner == "override")
        #expect(result.value == 20)
        #expect(result.layers.map(\.name) == ["host", "override"])
        #expect(result.layers.first?.file == "/etc/a.json" && result.layers.first?.line == 3)
        #expect(result.layers.first?.since?.description == "2026-01-31T12:00:00.000Z")
        #expect(result.layers.last?.command == "larder")
    }

    @Test("`history`, `diff` and `rollback` send their parameters and return their results")
    func revisions() async throws {
        let generations = try JSONValue(
            parsing: #"""
                {"namespace":"default","epoch":"e","generations":[{"revision":41,"digest":"sha256:x","bytes":2,
                 "publishedAt":"2026-01-31T12:00:00.000Z","current":true,"causes":[{"kind":"set","path":"a"}]}]}
                """#)
        let history = try await call("config.history", answer: generations) { try await $0.history(limit: 5) }
        #expect(history.params?["limit"] == 5)
        #expect(history.result.first?.causes.first?.path == "a")

        let difference = try JSONValue(
            parsing: #"""
                {"from":40,"to":41,"epoch":"e","patch":{"a":2},
                 "changes":[{"path":["a"],"kind":"changed","old":1,"new":2}]}
                """#)
        let diff = try await call("config.diff", answer: difference) { try await $0.diff(from: 40, at: "a") }
        #expect(diff.params?["from"] == 40 && diff.params?["to"] == nil && diff.params?["path"] == "/a")
        #expect(diff.result.map(\.path.description) == ["a"])
        #expect(diff.result.first?.old == 1 && diff.result.first?.new == 2)

        let change: JSONValue = [
            "revision": 42, "epoch": "e", "changed": true, "held": true, "hold": "untilReleased",
        ]
        let rollback = try await call("config.rollback", answer: change) { try await $0.rollback(to: 40) }
        #expect(rollback.params?["revision"] == 40 && rollback.params?["release"] == nil)
        #expect(rollback.params?["hold"] == nil)
        #expect(rollback.result.hasEffect && rollback.result.hold == .untilReleased)
        let untilNewer = try await call("config.rollback", answer: change) {
            try await $0.rollback(to: 40, hold: .untilNewer)
        }
        #expect(untilNewer.params?["hold"] == "untilNewer")
        let release = try await call("config.rollback", answer: change) { try await $0.releaseRollback() }
        #expect(release.params?["release"] == true && release.params?["revision"] == nil)
    }

    @Test(
        "`wait` sends each condition and the timeout",
        arguments: [
            (WaitCondition.equals(true), "equals", true as JSONValue), (.notEquals("x"), "notEquals", "x"),
            (.exists(false), "exists", false), (.revisionAtLeast(7, epoch: "e"), "revisionAtLeast", 7),
        ])
    func wait(condition: WaitCondition, member: String, value: JSONValue) async throws {
        let answer: JSONValue = ["exists": true, "value": true, "revision": 41, "epoch": "e", "state": "fresh"]
        let (params, snapshot) = try await call("config.wait", answer: answer) {
            try await $0["web"].wait(for: condition, at: "a", timeout: .milliseconds(1500))
        }
        #expect(params?[member] == value)
        #expect(params?["timeoutMilliseconds"] == 1500)
        #expect(
            snapshot
                == LarderSnapshot(value: true, revision: 41, epoch: "e", state: .fresh, skipped: 0, namespace: "web"))
    }

    @Test("`acknowledge` sends the revision and epoch of the snapshot")
    func acknowledge() async throws {
        let snapshot = LarderSnapshot(value: 1, revision: 41, epoch: "e", state: .fresh, namespace: "web")
        let accepted = try await call("config.acknowledge", answer: ["revision": 41]) {
            try await $0.acknowledge(snapshot)
        }
        #expect(accepted.params == ["revision": 41, "accepted": true, "namespace": "web", "epoch": "e"])
        let refused = try await call("config.acknowledge", answer: ["revision": 41]) {
            try await $0.acknowledge(snapshot, accepted: false, reason: "no port")
        }
        #expect(refused.params?["accepted"] == false && refused.params?["reason"] == "no port")
    }

    @Test("`snapshot` sends the maximum age in seconds")
    func maximumAge() async throws {
        let answer: JSONValue = ["value": 1, "revision": 41, "epoch": "e", "state": "fresh"]
        let (params, _) = try await call("config.get", answer: answer) {
            try await $0.snapshot(at: "a", maximumAge: .milliseconds(1500), staleIfError: .seconds(60))
        }
        #expect(params?["maximumAgeSeconds"] == 1.5)
        #expect(params?["staleIfErrorSeconds"] == 60)
    }
}
