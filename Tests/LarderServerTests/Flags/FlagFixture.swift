import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderProtocol
import NIOEmbedded
import Synchronization
import Testing

@testable import LarderServer

/// A connection to an agent whose namespace `default` has feature flags in the member `flags`.
struct FlagFixture: Sendable {
    static let flags =
        (try? JSONValue(
            parsing: """
                {
                  "color": {
                    "state": "ENABLED", "variants": {"red": "#f00", "blue": "#00f"}, "defaultVariant": "red",
                    "metadata": {"team": "web"}
                  },
                  "beta": {
                    "state": "ENABLED", "variants": {"on": true, "off": false}, "defaultVariant": "off",
                    "targeting": {"if": [{"ends_with": [{"var": "email"}, "@example.org"]}, "on", "off"]}
                  },
                  "late": {
                    "state": "ENABLED", "variants": {"on": true, "off": false}, "defaultVariant": "off",
                    "targeting": {"if": [{">=": [{"var": "$flagd.timestamp"}, 2000]}, "on", "off"]}
                  },
                  "old": {"state": "DISABLED", "variants": {"on": true}, "defaultVariant": "on"},
                  "secret": {"state": "ENABLED", "variants": {"key": {"token": "abc"}}, "defaultVariant": "key"},
                  "long": {
                    "state": "ENABLED", "variants": {"on": true}, "defaultVariant": "on",
                    "targeting": {"map": [{"var": "lists"}, {"map": [{"var": ""}, {"+": [{"var": ""}, 1]}]}]}
                  }
                }
                """)) ?? .null

    let client: ConnectionClient
    let context: ServerContext
    /// The time of day in milliseconds since 1970.
    let now: NowMilliseconds

    final class NowMilliseconds: Sendable {
        let value = Atomic<Int>(1_000_000)
    }

    static func with(
        _ limits: ConnectionLimits = ConnectionLimits(), peer: PeerCredentials = .own, rights: Rights = .all,
        settings: FlagSettings? = FlagSettings(member: "flags"), flags: JSONValue = Self.flags,
        _ body: (FlagFixture) async throws -> Void
    ) async throws {
        let now = NowMilliseconds()
        var rules = AccessRules()
        rules.general.others = rights
        try await ConnectionFixture.with(
            limits: limits, peer: peer, access: rules, flags: settings,
            secrets: try SecretPatterns(["flags.secret.**.token"]),
            wallClock: WallClock { now.value.load(ordering: .relaxed) }
        ) { client, context in
            let fixture = FlagFixture(client: client, context: context, now: now)
            try await fixture.set("flags", flags)
            try await body(fixture)
        }
    }

    func set(_ path: String, _ value: JSONValue) async throws {
        _ = try await #require(context.namespaces["default"]).store.set(
            try JSONPath(parsing: path), to: value, timeToLive: nil)
    }

    /// Runs the connection until it has sent a number of lines.
    func lines(_ count: Int) async throws -> [JSONValue] {
        var lines: [String] = []
        while lines.count < count {
            await client.eventLoop.run()
            lines += try await client.output()
            await Task.yield()
        }
        #expect(lines.count == count)
        return try lines.map { try JSONValue(parsing: Array($0.utf8)) }
    }

    /// Sends a request, and returns the next line.
    func call(_ method: String, _ params: String) async throws -> JSONValue {
        try await client.send(#"{"id":1,"method":"\#(method)","params":\#(params)}"# + "\n")
        return try await lines(1)[0]
    }

    /// Evaluates a flag, and returns the members `value` and `reason` of the result.
    func evaluate(_ params: String) async throws -> [JSONValue?] {
        let result = try await call("flag.evaluate", params)["result"]
        return [result?["value"], result?["reason"]]
    }
}

extension JSONValue {
    /// The names of the flags in an event, and their values.
    var outcomes: [String: JSONValue] {
        var outcomes: [String: JSONValue] = [:]
        for flag in self["params"]?["flags"]?.elements ?? JSONValue.array([]).elements {
            outcomes[flag["flag"]?.string ?? ""] = flag["value"] ?? flag["reason"]
        }
        return outcomes
    }
}
