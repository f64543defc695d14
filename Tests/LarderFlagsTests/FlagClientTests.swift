import Foundation
import LarderJSON
import LarderTesting
import TestSupport
import Testing

@testable import LarderFlags

@Suite("Feature flags in the process", .timeLimit(.minutes(15)))
struct FlagClientTests {
    private static func flag(
        _ variants: JSONValue, _ defaultVariant: JSONValue, targeting: JSONValue = .null, state: JSONValue = "ENABLED"
    ) -> JSONValue {
        ["state": state, "variants": variants, "defaultVariant": defaultVariant, "targeting": targeting]
    }

    private static let checkout = flag(
        ["on": true, "off": false], "off",
        targeting: ["if": [["ends_with": [["var": "email"], "@example.org"]], "on", .null]])

    private static let document: JSONValue = [
        "flags": [
            "checkout": checkout,
            "color": flag(["red": "#f00", "blue": "#00f"], "blue"),
            "limit": flag(["low": 10, "high": 20], "high"),
            "ratio": flag(["half": 0.5], "half"),
            "theme": flag(["dark": ["dark": true]], "dark"),
            "away": flag(["on": true], "on", state: "DISABLED"),
            "none": flag(["on": true], .null),
            "broken": ["state": "ENABLED"],
        ],
        "large": "the document has other members, too",
    ]

    @Test("each type is evaluated with the rule and the context; otherwise the default is returned")
    func types() async throws {
        let flags = try await TestAgent(Self.document).client().flags
        try await flags.ready()
        #expect(flags.bool("checkout", default: false, context: ["email": "a@example.org"]))
        #expect(!flags.bool("checkout", default: true, context: ["email": "a@example.com"]))
        #expect(flags.string("color", default: "#000") == "#00f")
        #expect(flags.int("limit", default: 1) == 20)
        #expect(flags.double("ratio", default: 1) == 0.5 && flags.double("limit", default: 1) == 20)
        #expect(flags.object("theme", default: [:]) == ["dark": true])
        for flag in ["away", "none", "broken", "no such flag"] {
            #expect(flags.bool(flag, default: true) && !flags.bool(flag, default: false))
        }
        #expect(flags.int("color", default: 7) == 7 && flags.int("ratio", default: 7) == 7)
    }

    @Test("the details have the variant, the reason, the error and the revision")
    func details() async throws {
        let agent = try await TestAgent()
        let revision = try await agent.publish(Self.document)
        let flags = agent.client().flags
        try await flags.ready()
        let match = flags.details("checkout", default: false, context: ["email": "a@example.org"])
        #expect(match.value && match.variant == "on" && match.reason == .targetingMatch && match.errorCode == nil)
        #expect(match.revision == revision && match.flag == "checkout" && match.metadata == [:])
        #expect(flags.details("checkout", default: true).reason == .default)
        #expect(flags.details("color", default: "").reason == .static)
        let expected: [(String, FlagReason, FlagErrorCode?)] = [
            ("away", .disabled, nil), ("none", .default, nil), ("broken", .error, .parseError),
            ("no such flag", .error, .flagNotFound), ("color", .error, .typeMismatch),
        ]
        for (flag, reason, code) in expected {
            let details = flags.details(flag, default: true)
            #expect(details.value && details.variant == nil && details.reason == reason && details.errorCode == code)
            #expect((details.errorMessage == nil) == (code == nil))
        }
    }

    @Test("before the first snapshot, an evaluation results in the default at once")
    func notReady() async throws {
        let agent = try await TestAgent(Self.document)
        agent.faults.isUnreachable = true
        let flags = agent.client().flags
        let details = flags.details("limit", default: 3)
        #expect(details.value == 3 && details.errorCode == .providerNotReady && details.revision == nil)
        agent.faults.isUnreachable = false
        while flags.int("limit", default: 3) == 3 {
            agent.clock.advance(by: .seconds(10))
            await Task.yield()
        }
        #expect(flags.int("limit", default: 3) == 20)
    }

    @Test("waiting for the first snapshot ends with the error of the agent")
    func missingNamespace() async throws {
        let agent = try await TestAgent()
        let flags = agent.client().flags["shop"]
        async let error = #expect(throws: LarderClientError.self) { try await flags.ready(within: .seconds(60)) }
        // The limit, and the delay before the next attempt.
        try await agent.clock.waitForSleepers(2)
        agent.clock.advance(by: .seconds(61))
        #expect(await error?.remoteError?.code == .unknownNamespace)
    }

    @Test("the flags can be in another namespace or member, or be the whole document")
    func members() async throws {
        let set: JSONValue = ["a": Self.flag(["one": 1], "one")]
        let shared: JSONValue = ["isMine": ["==": [["var": "me"], true]]]
        let rule = Self.flag(["one": 1, "two": 2], "one", targeting: ["if": [["$ref": "isMine"], "two", .null]])
        let agent = try await TestAgent(namespaces: [
            "default": ["features": ["a": rule], "$evaluators": shared],
            "shop": ["flags": set, "metadata": ["team": "x"]],
        ])
        let client = agent.client()
        let features = client.flags["default", member: "features"]
        let (shop, whole) = (client.flags["shop"], client.flags["shop", member: ""])
        for flags in [features, shop, whole] { try await flags.ready() }
        #expect(features.int("a", default: 0, context: ["me": true]) == 2 && features.int("a", default: 0) == 1)
        #expect(shop.namespace == "shop" && shop.member == "flags" && whole.member == "")
        #expect(shop.details("a", default: 0).metadata == [:])
        #expect(whole.details("a", default: 0).metadata == ["team": "x"])
    }

    @Test("a newer snapshot is used soon, and the last one until the agent is back after a restart")
    func updates() async throws {
        let agent = try await TestAgent(Self.document)
        let flags = agent.client().flags
        try await flags.ready()
        try await agent.publish(["flags": ["limit": Self.flag(["low": 10], "low")]])
        try await agent.waitUntil { flags.int("limit", default: 1) == 10 }
        try await agent.restart()
        #expect(flags.int("limit", default: 1) == 10)
        try await agent.publish(["flags": ["limit": Self.flag(["low": 11], "low")]])
        try await agent.waitUntil {
            agent.clock.advance(by: .seconds(10))
            return flags.int("limit", default: 1) == 11
        }
    }

    @Test("a stream of outcomes yields the current one, then those that differ")
    func outcomes() async throws {
        let agent = try await TestAgent(Self.document)
        let client = agent.client()
        try await client.flags.ready()
        var outcomes = client.flags.outcomes("limit", default: 1).makeAsyncIterator()
        #expect(await outcomes.next()?.value == 20)
        // Neither another flag nor the name of another variant matters.
        try await agent.publish(["flags": ["limit": Self.flag(["low": 5, "high": 20], "high"), "x": [:]]])
        try await agent.waitUntil { client.flags.details("x", default: 0).errorCode == .parseError }
        try await agent.publish(["flags": ["limit": Self.flag(["low": 5], "low")]])
        let next = await outcomes.next()
        #expect(next?.value == 5 && next?.variant == "low")
        try await agent.publish([:])
        #expect(await outcomes.next()?.errorCode == .flagNotFound)
    }

    @Test("a stream of outcomes evaluates a rule that uses the time every 60 s")
    func time() async throws {
        let agent = try await TestAgent([
            "flags": [
                "t": Self.flag(["on": true], "on", targeting: ["if": [["<": [["var": "$flagd.timestamp"], 0]], "on"]])
            ]
        ])
        let client = agent.client()
        try await client.flags.ready()
        let task = Task {
            for await details in client.flags.outcomes("t", default: false) where !details.value { break }
        }
        try await agent.clock.waitForSleepers()
        agent.clock.advance(by: .seconds(61))
        try await agent.clock.waitForSleepers()
        task.cancel()
        await task.value
        #expect(client.flags.store.listenerCount == 0)
    }

    @Test("a stream of outcomes begins without an agent, and ends when its task is cancelled")
    func cancelledStream() async throws {
        let agent = try await TestAgent(Self.document)
        agent.faults.isUnreachable = true
        let client = agent.client()
        let task = Task {
            var values: [Int] = []
            for await details in client.flags.outcomes("limit", default: 3) { values.append(details.value) }
            return values
        }
        while client.flags.store.listenerCount == 0 { await Task.yield() }
        task.cancel()
        #expect(await task.value.allSatisfy { $0 == 3 })
    }

    @Test("a stream of outcomes ends when the client is closed")
    func closedClient() async throws {
        let client = try await TestAgent(Self.document).client()
        let run = Task { try await client.run() }
        try await client.flags.ready()
        let stream = Task { for await _ in client.flags.outcomes("limit", default: 3) {} }
        while client.flags.store.listenerCount == 0 { await Task.yield() }
        run.cancel()
        await stream.value
        #expect(client.flags.int("limit", default: 3) == 20)
        for await _ in client.flags.outcomes("limit", default: 3) { break }
    }

    @Test("a client of a file evaluates the flags in the file")
    func file() async throws {
        try await withTemporaryDirectory { directory in
            let path = directory + "/config.json"
            try Data(Self.document.description.utf8).write(to: URL(filePath: path), options: .atomic)
            let client = try LarderClient(contentsOf: path)
            try await client.flags.ready(within: .seconds(60))
            #expect(client.flags.int("limit", default: 1) == 20)
            try Data("{}".utf8).write(to: URL(filePath: path), options: .atomic)
            while client.flags.details("limit", default: 1).errorCode != .flagNotFound { await Task.yield() }
        }
    }

    @Test("the flags do not keep their client alive")
    func release() async throws {
        let agent = try await TestAgent(Self.document)
        weak var released: LarderClient?
        do {
            let client = agent.client()
            released = client
            try await client.flags.ready()
        }
        try await agent.publish([:])
        try await agent.waitUntil { released == nil }
    }
}
