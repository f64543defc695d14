import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import LarderServer

@Suite("Subscriptions to feature flags", .timeLimit(.minutes(5)))
struct FlagSubscriptionTests {
    /// Subscribes, and returns the first event, which follows the reply.
    private static func subscribe(_ fixture: FlagFixture, _ params: String) async throws -> JSONValue {
        try await fixture.client.send(#"{"id":1,"method":"flag.subscribe","params":\#(params)}"# + "\n")
        let lines = try await fixture.lines(2)
        #expect(lines[0]["result"]?["subscription"]?.int != nil)
        return lines[1]
    }

    @Test("an event has the outcomes that have changed for the context")
    func changes() async throws {
        try await FlagFixture.with { fixture in
            let first = try await Self.subscribe(
                fixture, #"{"flags":["color","beta","none"],"context":{"email":"ann@example.org"}}"#)
            #expect(first["params"]?["reason"] == "initial" && first["params"]?["sequence"] == 1)
            #expect(first.outcomes == ["color": "#f00", "beta": true, "none": "ERROR"])
            // Neither of these changes an outcome.
            try await fixture.set("other", 1)
            try await fixture.set("flags.beta.defaultVariant", "on")
            try await fixture.set("flags.color.defaultVariant", "blue")
            let second = try await fixture.lines(1)[0]
            #expect(second["params"]?["reason"] == "change" && second["params"]?["sequence"] == 2)
            #expect(second.outcomes == ["color": "#00f"])
            let end = try await fixture.call("config.unsubscribe", #"{"subscription":1}"#)
            #expect(end["result"]?["subscription"] == 1)
            try await fixture.set("flags.color.defaultVariant", "red")
            let ping = try await fixture.call("agent.ping", "{}")
            #expect(ping["result"] != nil)
        }
    }

    @Test("outcomes that depend on the time are evaluated each minute")
    func time() async throws {
        try await FlagFixture.with { fixture in
            let first = try await Self.subscribe(fixture, #"{"flags":["late","color"]}"#)
            #expect(first.outcomes == ["late": false, "color": "#f00"])
            fixture.now.value.store(2_000_000, ordering: .relaxed)
            await fixture.client.eventLoop.advanceTime(by: FlagHub.interval)
            let late = try await fixture.lines(1)
            #expect(late[0].outcomes == ["late": true])
            // The timer is started again after each evaluation, which is complete before the event.
            fixture.now.value.store(1_000_000, ordering: .relaxed)
            await fixture.client.eventLoop.advanceTime(by: FlagHub.interval)
            let early = try await fixture.lines(1)
            #expect(early[0].outcomes == ["late": false])
        }
    }

    @Test("a subscription ends with its namespace")
    func namespaceRemoved() async throws {
        try await FlagFixture.with { fixture in
            _ = try await Self.subscribe(fixture, #"{"flags":["color"]}"#)
            async let removal: Void = fixture.context.namespaces.apply([NamespaceConfiguration(name: "other")])
            let end = try await fixture.lines(1)[0]
            #expect(end["params"]?["kind"] == "end" && end["params"]?["reason"] == "namespaceRemoved")
            await removal
        }
    }

    @Test("a secret is hidden from subscribers, and other settings take effect without a new snapshot")
    func settings() async throws {
        try await FlagFixture.with(peer: .stranger, rights: Rights([.read])) { fixture in
            let first = try await Self.subscribe(fixture, #"{"flags":["secret","color"]}"#)
            #expect(first.outcomes == ["secret": "ERROR", "color": "#f00"])
            var configuration = try #require(fixture.context.namespaces["default"]).configuration
            configuration.secrets = .none
            async let change: Void = fixture.context.namespaces.apply([configuration])
            let shown = try await fixture.lines(1)
            #expect(shown[0].outcomes == ["secret": ["token": "abc"]])
            await change
        }
    }

    @Test("a client that does not read gets the newest outcome, not all of them")
    func slowClient() async throws {
        let long = String(repeating: "x", count: 4 << 20)
        var flags = FlagFixture.flags
        flags = MergePatch.apply(
            ["big": ["state": "ENABLED", "variants": ["a": .string(long)], "defaultVariant": "a"]], to: flags)
        try await FlagFixture.with(flags: flags) { fixture in
            try await fixture.client.send(
                #"{"id":1,"method":"flag.subscribe","params":{"flags":["big","color"]}}"# + "\n")
            // The first event does not fit into the socket.
            while fixture.context.flags.count == 0 { await fixture.client.eventLoop.run() }
            for _ in 1...8 {
                for variant in ["blue", "red"] { try await fixture.set("flags.color.defaultVariant", .string(variant)) }
                await fixture.client.eventLoop.run()
            }
            try await fixture.set("flags.color.defaultVariant", "blue")
            var (sequence, color, events) = (0, JSONValue.null, 0)
            while color != "#00f" || events == 0 {
                await fixture.client.eventLoop.run()
                for line in try await fixture.client.output() {
                    let event = try JSONValue(parsing: Array(line.utf8))
                    guard let number = event["params"]?["sequence"]?.int else { continue }
                    #expect(number == sequence + 1)
                    sequence = number
                    color = event.outcomes["color"] ?? color
                    events += 1
                }
                await Task.yield()
            }
            #expect(events < 17)
        }
    }

    @Test("a subscription has at most 64 flags, and its context counts towards the limit of its user")
    func limits() async throws {
        try await FlagFixture.with { fixture in
            let names = [String](repeating: #""color""#, count: 65).joined(separator: ",")
            let error = try await fixture.call("flag.subscribe", #"{"flags":[\#(names)]}"#)["error"]
            #expect(error?["data"]?["name"] == "invalidParams")
            let empty = try await fixture.call("flag.subscribe", #"{"flags":[]}"#)
            #expect(empty["error"] != nil)
            var less = ConnectionLimits()
            less.queuedBytesPerUser = 10_000
            let context = String(repeating: "x", count: 10_000)
            _ = try await Self.subscribe(fixture, #"{"flags":["color"],"context":{"a":"\#(context)"}}"#)
            #expect(fixture.client.usage.exceedsQueuedBytes(less))
            _ = try await fixture.call("config.unsubscribe", #"{"subscription":1}"#)
            less.queuedBytesPerUser = 0
            #expect(!fixture.client.usage.exceedsQueuedBytes(less))
        }
        var limits = ConnectionLimits()
        limits.subscriptionsPerConnection = 1
        try await FlagFixture.with(limits) { fixture in
            _ = try await Self.subscribe(fixture, #"{"flags":["color"]}"#)
            let error = try await fixture.call("flag.subscribe", #"{"flags":["color"]}"#)["error"]
            #expect(error?["data"]?["name"] == "limitExceeded")
        }
    }

    @Test("publications during an evaluation, and many subscriptions, lead to the newest outcomes")
    func manySubscriptions() async throws {
        var limits = ConnectionLimits()
        limits.subscriptionsPerConnection = 300
        try await FlagFixture.with(limits) { fixture in
            let count = 200
            for _ in 1...count {
                try await fixture.client.send(
                    #"{"id":1,"method":"flag.subscribe","params":{"flags":["color"]}}"# + "\n")
            }
            for variant in ["blue", "red", "blue"] {
                try await fixture.set("flags.color.defaultVariant", .string(variant))
            }
            var newest: Set<Int> = []
            while newest.count < count {
                await fixture.client.eventLoop.run()
                for line in try await fixture.client.output() {
                    let event = try JSONValue(parsing: Array(line.utf8))
                    guard let id = event["params"]?["subscription"]?.int else { continue }
                    if event.outcomes["color"] == "#00f" { newest.insert(id) } else { newest.remove(id) }
                }
                await Task.yield()
            }
            #expect(newest.count == count)
        }
    }
}
