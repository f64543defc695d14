import Foundation
import LarderImages
import LarderJSON
import LarderProtocol
import TestSupport
import Testing

@testable import LarderServer

@Suite("Resources that a connection uses")
struct ConnectionUsageTests {
    /// Limits with a `queuedBytesPerUser` of 100,000. If the connections of a user have more queued bytes, requests and
    /// values of more than 65,536 bytes are refused.
    private static let limits: ConnectionLimits = {
        var limits = ConnectionLimits()
        limits.queuedBytesPerUser = 100_000
        return limits
    }()

    /// Rules for a stranger with all rights. The usage of trusted users is not limited.
    private static let allRights: AccessRules = {
        var rules = AccessRules()
        rules.general.others = .all
        return rules
    }()

    private static func set(_ bytes: Int, at path: String) -> String {
        let value = String(repeating: "x", count: bytes)
        return #"{"id":"set","method":"config.set","params":{"path":"\#(path)","value":"\#(value)"}}"# + "\n"
    }

    /// Reads replies until one has this id.
    private static func reply(_ id: String, from client: ConnectionClient) async throws -> JSONValue {
        while true {
            for line in try await client.output() {
                let message = try JSONValue(parsing: line)
                if message["id"]?.string == id { return message }
            }
            await Task.yield()
        }
    }

    private static func call(_ id: String, _ method: String, _ params: String, _ client: ConnectionClient) async throws
        -> JSONValue
    {
        try await client.send(#"{"id":"\#(id)","method":"\#(method)","params":\#(params)}"# + "\n")
        return try await reply(id, from: client)
    }

    /// Whether the queued bytes, subscriptions and requests in flight of a user are all zero.
    private static func isUnused(_ usage: UserUsage) -> Bool {
        var (none, less) = (limits, limits)
        (none.queuedBytesPerUser, less.queuedBytesPerUser) = (0, -1)
        (none.subscriptionsPerUser, none.requestsInFlightPerUser) = (1, 1)
        /// Whether `take` succeeds exactly once. Because the limit is 1, nothing was in use before if so.
        func isZero(_ take: () throws(UsageRefusal) -> Void, _ release: () -> Void) -> Bool {
            guard (try? take()) != nil else { return false }
            defer { release() }
            if (try? take()) == nil { return true }
            release()
            return false
        }
        return !usage.exceedsQueuedBytes(none) && usage.exceedsQueuedBytes(less)
            && isZero({ () throws(UsageRefusal) in try usage.addSubscription(none) }, usage.removeSubscription)
            && isZero({ () throws(UsageRefusal) in try usage.addRequest(none) }, usage.removeRequest)
    }

    @Test("the replies of an incomplete batch count as queued bytes until the batch is answered")
    func batch() async throws {
        try await ConnectionFixture.with(limits: Self.limits) { client, _ in
            // No line is long, because the batch would have the memory of that line.
            for number in 0..<10 {
                try await client.send(Self.set(7_000, at: "a.part\(number)"))
                _ = try await Self.reply("set", from: client)
            }
            let get = #"{"id":1,"method":"config.get","params":{"path":"a"}}"#
            let wait = #"{"id":"wait","method":"config.wait","params":{"path":"b","exists":true}}"#
            try await client.send("[\(get),\(wait),\(get),\(get)]\n")
            let refused = try await Self.call("large", "config.get", #"{"path":"a"}"#, client)
            #expect(refused["error"]?["data"]?["name"]?.string == "limitExceeded")
            // The last read in the batch is refused, too, because the values of the first two reads are queued. The
            // batch is complete when the wait is cancelled.
            try await client.send(#"{"method":"request.cancel","params":{"id":"wait"}}"# + "\n")
            var replies: JSONValue?
            while replies == nil {
                for line in try await client.output() {
                    let message = try JSONValue(parsing: line)
                    if message.kind == .array { replies = message }
                }
                await Task.yield()
            }
            let names = try #require(replies).elements.map { $0["error"]?["data"]?["name"]?.string ?? "" }
            #expect(names == ["", "cancelled", "", "limitExceeded"])
            let served = try await Self.call("again", "config.get", #"{"path":"a"}"#, client)
            #expect(served["result"] != nil)
        }
    }

    @Test(
        "the line of a batch counts as queued while its requests wait; over the limit, the requests are refused",
        arguments: [false, true])
    func waitingBatch(isOverLimit: Bool) async throws {
        var limits = Self.limits
        limits.requestsInFlightPerConnection = 1
        try await ConnectionFixture.with(limits: limits, peer: .stranger, access: Self.allRights) { client, _ in
            let wait = #"{"id":"wait","method":"config.wait","params":{"path":"b","exists":true}}"#
            let ping = #"{"id":1,"method":"agent.ping","params":{"x":"\#(String(repeating: "x", count: 70_000))"}}"#
            if isOverLimit { client.usage.charge(limits.queuedBytesPerUser + 1) }
            try await client.send("[\(wait),\(ping),{\"method\":\"agent.ping\"}]\n")
            if isOverLimit {
                let error = try await JSONValue(parsing: #require(client.output().first))[0]?["error"]
                #expect(error?["data"]?["name"]?.string == "limitExceeded")
                client.usage.charge(-limits.queuedBytesPerUser - 1)
            }
            var less = limits
            less.queuedBytesPerUser = 70_000
            #expect(client.usage.exceedsQueuedBytes(less) == !isOverLimit)
            try await client.end()
            #expect(Self.isUnused(client.usage))
        }
    }

    @Test(
        "a task that runs counts with the memory of its parsed parameters, which is many times the length of its line",
        arguments: ["0", "[]", #""""#, #"{"a":0}"#])
    func parsedParameters(element: String) async throws {
        let value = "[\(Array(repeating: element, count: 8000).joined(separator: ","))]"
        let bytes = try JSONValue(parsing: value).detached().documentMemory
        var methods = MethodRegistry.agent
        let handler = MethodRegistry.Handler(lifetime: .connection, needsReply: false) {
            (dispatcher, request, slot, _) throws(WireError) in
            let end = AsyncStream<Never> { _ in }
            let reply = TaskReply(size: .small) { () async throws(WireError) in
                for await _ in end {}
                return AgentPing.Result()
            }
            try dispatcher.connection.requests.start(
                reply, id: request.id, request.params, Admission(method: "endless", requirement: .nothing), .connection,
                in: slot)
        }
        methods.add("endless", handler)
        try await Self.expectCharge(
            of: bytes...2 * bytes, for: #"{"id":"wait","method":"endless","params":{"value":\#(value)}}"#, methods)
    }

    @Test(
        "a config.wait counts with the length of its value, because it does not retain the parsed value",
        arguments: ["0", "[]", #""xxxx""#, #"{"a":0}"#])
    func waits(element: String) async throws {
        let value = "[\(Array(repeating: element, count: 8000).joined(separator: ","))]"
        #expect(try JSONText(JSONValue(parsing: value)).count == value.utf8.count)
        try await Self.expectCharge(
            of: value.utf8.count...value.utf8.count * 5 / 4,
            for: #"{"id":"wait","method":"config.wait","params":{"path":"b","equals":\#(value)}}"#)
    }

    /// Expects that each of several requests that wait is charged with a number of bytes, and that further ones are
    /// refused, except for small ones.
    private static func expectCharge(
        of bytes: ClosedRange<Int>, for line: String, _ methods: MethodRegistry = .agent
    ) async throws {
        var limits = limits
        limits.queuedBytesPerUser = 3 * bytes.lowerBound - 1
        try await ConnectionFixture.with(methods, limits: limits, peer: .stranger, access: allRights) { client, _ in
            for _ in 0..<4 { try await client.send(line + "\n") }
            let refused = try await reply("wait", from: client)
            #expect(refused["error"]?["data"]?["name"]?.string == "limitExceeded")
            // Two or three requests wait.
            func exceeds(_ bytes: Int) -> Bool {
                var less = limits
                less.queuedBytesPerUser = bytes
                return client.usage.exceedsQueuedBytes(less)
            }
            #expect(exceeds(2 * bytes.lowerBound - 1) && !exceeds(3 * bytes.upperBound))
            // A small request may wait even now.
            try await client.send(#"{"id":"small","method":"config.wait","params":{"path":"c","exists":true}}"# + "\n")
            try await client.send(#"{"method":"config.set","params":{"path":"c","value":1}}"# + "\n")
            #expect(try await reply("small", from: client)["result"]?["value"]?.int == 1)
            try await client.end()
            #expect(isUnused(client.usage))
        }
    }

    @Test(
        "a request whose reply may exceed the limit is refused before it starts if another large reply is being made",
        arguments: [
            ("config.explain", #""path":"a""#), ("config.diff", #""from":REVISION"#), ("config.backup", ""),
            ("config.overrides", ""), ("config.rollback", #""revision":REVISION,"dryRun":true"#),
            ("config.set", #""path":"a","value":1,"dryRun":true"#), ("config.unset", #""path":"a","dryRun":true"#),
            ("config.apply", #""changes":[{"op":"set","path":"a","value":1}],"dryRun":true"#),
            ("config.push", #""document":{},"dryRun":true"#),
            ("config.set", #""path":"a","value":1,"ifValue":2"#), ("config.unset", #""path":"a","ifValue":2"#),
            ("config.apply", #""changes":[{"op":"set","path":"a","value":1,"ifValue":2}]"#),
        ])
    func largeReplies(method: String, parameters: String) async throws {
        try await ConnectionFixture.with(limits: Self.limits) { client, _ in
            try await client.send(Self.set(120_000, at: "a"))
            let revision = try await Self.reply("set", from: client)["result"]?["revision"]?.int ?? 0
            let params = "{\(parameters.replacingOccurrences(of: "REVISION", with: "\(revision)"))}"
            let other = try client.usage.reserveReply(1, Self.limits)
            let refused = try await Self.call("refused", method, params, client)
            #expect(refused["error"]?["data"]?["name"]?.string == "limitExceeded", "\(method)")
            withExtendedLifetime(other) {}
        }
        try await ConnectionFixture.with(limits: Self.limits, peer: .stranger, access: Self.allRights) { client, _ in
            try await client.send(Self.set(120_000, at: "a"))
            let revision = try await Self.reply("set", from: client)["result"]?["revision"]?.int ?? 0
            let params = "{\(parameters.replacingOccurrences(of: "REVISION", with: "\(revision)"))}"
            let served = try await Self.call("served", method, params, client)
            let error = served["error"]?["data"]?["name"]?.string
            #expect(error != "limitExceeded" && (error == "conflict") == parameters.contains("ifValue"), "\(method)")
            try await client.end()
            #expect(Self.isUnused(client.usage))
        }
    }

    @Test("a conflict with a large value is withheld if too much is buffered for the user", arguments: [false, true])
    func largeConflict(isInBatch: Bool) async throws {
        try await ConnectionFixture.with(limits: Self.limits) { client, _ in
            try await client.send(Self.set(120_000, at: "a"))
            _ = try await Self.reply("set", from: client)
            client.usage.charge(Self.limits.queuedBytesPerUser + 1)
            let set = #"{"id":"conflict","method":"config.set","params":{"path":"a","value":1,"ifValue":2}}"#
            try await client.send((isInBatch ? "[\(set)]" : set) + "\n")
            var reply: JSONValue?
            while reply == nil {
                for line in try await client.output() { reply = try JSONValue(parsing: line) }
                await Task.yield()
            }
            let error = (isInBatch ? reply?[0] : reply)?["error"]?["data"]?["name"]?.string
            #expect(error == "limitExceeded")
            client.usage.charge(-Self.limits.queuedBytesPerUser - 1)
        }
    }

    @Test("long paths of subscriptions count as queued bytes until the subscriptions end")
    func paths() async throws {
        try await ConnectionFixture.with(limits: Self.limits) { client, _ in
            let long = String(repeating: "x", count: 60_000)
            func subscribe(_ path: String) async throws -> JSONValue {
                try await Self.call("subscribe", "config.subscribe", #"{"path":"\#(path)"}"#, client)
            }
            #expect(try await subscribe("1" + long)["result"] != nil)
            #expect(try await subscribe("2" + long)["result"] != nil)
            #expect(try await subscribe("3" + long)["error"]?["data"]?["name"]?.string == "limitExceeded")
            #expect(try await subscribe("short")["result"] != nil)
            _ = try await Self.call("end", "config.unsubscribe", #"{"subscription":1}"#, client)
            #expect(try await subscribe("3" + long)["result"] != nil)
        }
    }

    @Test("the list of a prefetch counts as queued bytes until its end; over the limit, a large list is refused")
    func prefetch() async throws {
        try await ImageFixture.with(limits: Self.limits) { fixture, client in
            fixture.gate.shut()
            func prefetch(_ id: Int, _ list: String) async throws {
                try await client.send(#"{"id":\#(id),"method":"image.prefetch","params":{\#(list)}}"#)
            }
            var replies: [JSONValue] = []
            /// The next reply. Skips progress notifications.
            func reply() async throws -> JSONValue {
                while replies.isEmpty { replies += try await client.read(1).lines.filter { $0["method"] == nil } }
                return replies.removeFirst()
            }
            let many = #""urls":[\#((0..<1000).map { #""http://h/\#($0)""# }.joined(separator: ","))]"#
            try await prefetch(1, many)
            await fixture.gate.waitForRequest()
            try await prefetch(2, many)
            let refused = try await reply()
            #expect(refused["id"]?.int == 2 && refused["error"]?["data"]?["name"]?.string == "limitExceeded")
            try await prefetch(3, #""urls":["http://h/0"]"#)
            fixture.gate.open()
            for _ in 0..<2 { #expect(try await reply()["result"]?["failed"]?.int == 0) }
            try await prefetch(4, many)
            #expect(try await reply()["result"]?["cached"]?.int == 1000)
        }
    }

    /// Another reply whose memory leaves room for all 200 images, only for the first chunk of them, or for none.
    @Test(
        "image.list reserves memory for the images on its page; the page ends before images above the limit, or is refused",
        arguments: [1, 1_600_000, 4_000_000])
    func listedImages(otherBytes: Int) async throws {
        var limits = Self.limits
        limits.queuedBytesPerUser = 4_000_000
        try await ImageFixture.with(limits: limits) { fixture, client in
            for number in 0..<200 {
                let image = try await fixture.images.cache.image(ImageRequest(url: "http://h/\(number)"))
                fixture.images.cache.view.release(image.digest)
            }
            func list(_ parameters: String) async throws -> JSONValue {
                try await client.call(#"{"id":1,"method":"image.list","params":{\#(parameters)}}"#)
            }
            func urls(_ page: JSONValue) -> [String] {
                page["result"]?["images"]?.elements.compactMap { $0["url"]?.string } ?? []
            }
            let all = Set((0..<200).map { "http://h/\($0)" })
            var other: ReplyReservation? = try client.reserveReply(otherBytes, limits)
            var page = try await list(#""limit":1000"#)
            if otherBytes == 4_000_000 {
                #expect(page["error"]?["data"]?["name"]?.string == "limitExceeded")
            } else {
                #expect(urls(page).count == (otherBytes == 1 ? 200 : 64), "\(page)")
                var found = Set(urls(page))
                // The memory of the previous page may still be reserved. These pages need less memory.
                while let next = page["result"]?["next"]?.string {
                    page = try await list(#""limit":32,"after":"\#(next)""#)
                    found.formUnion(urls(page))
                }
                #expect(found == all && page["error"] == nil, "\(page)")
            }
            withExtendedLifetime(other) {}
            // The only large reply of a user is always made.
            other = nil
            page = try await list(#""limit":1000"#)
            #expect(Set(urls(page)) == all)
            page = try await list(#""limit":100"#)
            #expect(urls(page).count == 100 && page["result"]?["next"]?.string != nil)
        }
    }

    @Test("after a client disconnects and its requests end, the usage of its user is zero", arguments: 0..<40)
    func everythingIsReleased(seed: Int) async throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        let long = String(repeating: "y", count: 70_000)
        let get = #"{"id":1,"method":"config.get","params":{"path":"a"}}"#
        let wait = #"{"id":2,"method":"config.wait","params":{"path":"b","exists":true}}"#
        let lines = [
            get, wait, #"{"id":2,"method":"config.wait","params":{"path":"b","equals":"\#(long)"}}"#,
            "[\(wait),\(get),\(get),\(get)]", "[\(get),\(wait)]", "[]", "[1]",
            "[\(get),\(wait),\(get),\(wait),\(wait),{\"x\":\"\(long)\"}]",
            #"{"id":3,"method":"config.subscribe","params":{"path":"\#(long)"}}"#,
            #"[{"id":3,"method":"config.subscribe","params":{"path":"\#(long)"}},\#(wait)]"#,
            #"{"id":3,"method":"config.subscribe","params":{"path":""}}"#,
            #"{"id":4,"method":"config.unsubscribe","params":{"subscription":1}}"#,
            #"{"id":4,"method":"config.unsubscribe","params":{"subscription":2}}"#,
            #"{"id":5,"method":"request.cancel","params":{"id":2}}"#, #"{"id":6,"method":"config.open"}"#,
            #"{"id":7,"method":"agent.stats"}"#, #"{"id":7,"method":"config.history"}"#,
            #"{"id":8,"method":"config.set","params":{"path":"a","value":"\#(long)"}}"#,
            #"{"method":"config.set","params":{"path":"c","value":1}}"#, #"{"id":9,"method":"config.get","params":5}"#,
        ]
        let rest = ["", "", "{", String(repeating: "z", count: 80_000)].randomElement(using: &generator) ?? ""
        var limits = Self.limits
        limits.requestsInFlightPerConnection = Int.random(in: 2...8, using: &generator)
        var rules = AccessRules()
        rules.general.others = .all
        let steps = (0..<Int.random(in: 1...25, using: &generator)).map { _ in
            (line: (lines.randomElement(using: &generator) ?? "") + "\n", reads: Bool.random(using: &generator))
        }
        let endsInput = Bool.random(using: &generator)
        let usage = try await ConnectionFixture.with(limits: limits, peer: .stranger, access: rules) { client, _ in
            // Stops at the first line that cannot be sent. The socket is then full, because the connection does not
            // read.
            for step in steps where (try? await client.send(step.line)) != nil {
                if step.reads { _ = try await client.output() }
            }
            _ = try? await client.send(rest)
            if endsInput { try await client.endInput() }
            try await client.end()
            return client.usage
        }
        // Committed requests are still executed and count until they complete.
        while !Self.isUnused(usage) { await Task.yield() }
    }
}
