import Glibc
import LarderJSON
import LarderClient
@testable import LarderClientCore
import LarderProtocol
import LarderTesting
import Synchronization
import TestSupport
import Testing

@Suite("Snapshot streams", .timeLimit(.minutes(15)))
struct ConfigSnapshotsTests {
    @Test("after a disconnect, the stream resumes from its revision and epoch and delivers only newer snapshots")
    func reconnects() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let snapshots = agent.client().config["web"].snapshots(at: "search")
            async let script: Void = {
                let first = try await agent.accept()
                let request = try await first.subscription(revision: 7)
                #expect(request.params == ["path": "/search", "namespace": "web"])
                try await first.snapshot(1, revision: 7, "seven", reason: "initial")
                first.close()
                let second = try await agent.accept()
                let again = try await second.subscription(revision: 9)
                #expect(
                    again.params == ["path": "/search", "namespace": "web", "since": 7, "epoch": "e1"])
                try await second.snapshot(1, revision: 6, "older")
                try await second.snapshot(2, revision: 7, "received before")
                try await second.snapshot(3, revision: 9, "nine", reason: "gap")
                _ = try await second.line()
            }()
            var received: [String] = []
            for try await snapshot in snapshots {
                received.append(snapshot.value?.string ?? "")
                if received.count == 2 { break }
            }
            #expect(received == ["seven", "nine"])
            try await script
        }
    }

    @Test("snapshots of a new epoch are delivered although their revisions are lower")
    func epochChange() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let snapshots = agent.client().config.snapshots()
            async let script: Void = {
                let first = try await agent.accept()
                try await first.subscription(revision: 900)
                try await first.snapshot(1, revision: 900, 1)
                first.close()
                let second = try await agent.accept()
                let again = try await second.subscription(revision: 3, epoch: "e2")
                #expect(again.params?["epoch"] == "e1")
                try await second.snapshot(1, revision: 3, 2, epoch: "e2", reason: "restart")
                _ = try await second.line()
            }()
            var received: [Int] = []
            for try await snapshot in snapshots {
                received.append(snapshot.revision)
                if received.count == 2 { break }
            }
            #expect(received == [900, 3])
            try await script
        }
    }

    @Test("a slow consumer gets the newest snapshot and the number of skipped ones")
    func slowConsumer() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            var iterator = client.config.snapshots().makeAsyncIterator()
            async let script: Void = {
                let connection = try await agent.accept()
                try await connection.subscription(revision: 1)
                try await connection.snapshot(1, revision: 1, 1)
                // The consumer handles the first snapshot until its ping is answered. All other snapshots arrive before
                // this reply.
                let ping = try await connection.request("agent.ping")
                for revision in 2...50 { try await connection.snapshot(revision, revision: revision, .int(revision)) }
                try await connection.reply(ping, ["pong": true])
                _ = try await connection.line()
            }()
            #expect(try await iterator.next()?.revision == 1)
            try await client.agent.ping()
            let newest = try #require(try await iterator.next())
            #expect(newest.revision == 50)
            #expect(newest.skipped == 48)
            client.slot.close()
            try await script
        }
    }

    @Test("patch mode requests patches and applies them")
    func patchMode() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let snapshots = agent.client().config.snapshots(at: "a", mode: .patch)
            async let script: Void = {
                let first = try await agent.accept()
                #expect(try await first.subscription(revision: 1).params == ["path": "/a", "mode": "patch"])
                try await first.snapshot(1, revision: 1, ["x": 1, "y": 1])
                try await first.patch(2, revision: 2, from: 1, ["y": .null])
                try await first.patch(3, revision: 9, from: 8, ["y": 1])
                // The base of the last patch is not the revision of the client. The client therefore closes the
                // connection and requests the whole document.
                while try await first.line() != nil {}
                let second = try await agent.accept()
                #expect(try await second.subscription(revision: 9).params == ["path": "/a", "mode": "patch"])
                try await second.snapshot(1, revision: 9, ["z": 1], reason: "initial")
                _ = try await second.line()
            }()
            var last: JSONValue?
            for try await snapshot in snapshots {
                last = snapshot.value
                if snapshot.revision == 2 { #expect(snapshot.value == ["x": 1]) }
                if snapshot.revision == 9 { break }
            }
            #expect(last == ["z": 1])
            try await script
        }
    }

    @Test("leaving the loop over a stream ends the subscription and keeps the connection")
    func unsubscribes() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let script: Void = {
                let connection = try await agent.accept()
                try await connection.subscription(revision: 1)
                try await connection.snapshot(1, revision: 1, 1)
                let request = try await connection.request("config.unsubscribe")
                #expect(request.params == ["subscription": 1])
                try await connection.snapshot(2, revision: 2, 2)
                try await connection.reply(connection.request("agent.ping"), ["pong": true])
            }()
            for try await _ in client.config.snapshots() { break }
            try await client.agent.ping()
            try await script
        }
    }

    @Test("the stream ends when its task is cancelled while it waits for a snapshot")
    func cancelledWhileWaiting() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let follower = Task {
                var count = 0
                for try await _ in client.config.snapshots() { count += 1 }
                return count
            }
            let connection = try await agent.accept()
            try await connection.subscription(revision: 1)
            follower.cancel()
            #expect(try await follower.value == 0)
            // If the reply to `config.subscribe` has not arrived when the task is cancelled, the client first cancels
            // that request.
            var request = try await connection.request()
            if request.method == "request.cancel" { request = try await connection.request() }
            #expect(request.method == "config.unsubscribe")
        }
    }

    @Test(
        "if a subscription is cancelled before the reply to its request, the client unsubscribes when the reply arrives"
    )
    func cancelledWhileSubscribing() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let follower = Task {
                for try await _ in client.config.snapshots() {}
            }
            let connection = try await agent.accept()
            let request = try await connection.request("config.subscribe")
            follower.cancel()
            try await follower.value
            _ = try await connection.request("request.cancel")
            try await connection.reply(
                request, ["subscription": 1, "revision": 1, "epoch": "e1", "state": "fresh"])
            _ = try await connection.request("config.unsubscribe")
        }
    }

    @Test("the stream ends when its task is cancelled while it waits to reconnect")
    func cancelledWhileDisconnected() async throws {
        let agent = try await TestAgent()
        agent.faults.isUnreachable = true
        let follower = Task {
            for try await _ in agent.client().config.snapshots() {}
        }
        try await agent.clock.waitForSleepers()
        follower.cancel()
        try await follower.value
    }

    @Test("with failOnRefusal(), the stream throws the error of a refusal")
    func failsOnRefusal() async throws {
        let client = try await TestAgent().client()
        let failure = await error { for try await _ in client.config["nope"].snapshots().failOnRefusal() {} }
        #expect(failure?.remoteError?.code == .unknownNamespace)
        let mapped = await error {
            for try await _ in client.config["nope"].mappedSnapshots().failOnRefusal() {}
        }
        #expect(mapped?.remoteError?.code == .unknownNamespace)
    }

    @Test("a refused stream keeps trying; it reports each new reason once, and the resumption")
    func refusal() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let reports = Mutex<[String]>([])
            let snapshots = client.config.snapshots()
                .onInterruption { report in reports.withLock { $0.append(report.error.remoteError?.detail ?? "") } }
                .onResumption { reports.withLock { $0.append("resumed") } }
            async let script: Void = {
                let connection = try await agent.accept()
                for detail in ["one", "one", "one", "two", "two"] {
                    try await connection.fail(connection.request("config.subscribe"), .denied, detail)
                }
                try await connection.subscription(revision: 1)
                try await connection.snapshot(1, revision: 1, 1)
                try await connection.end(2, revision: 1, reason: "denied")
                try await connection.fail(connection.request("config.subscribe"), .denied, "two")
                try await connection.subscription(revision: 2)
                try await connection.snapshot(1, revision: 2, 2)
                _ = try await connection.line()
            }()
            for try await snapshot in snapshots where snapshot.revision == 2 { break }
            try await script
            #expect(reports.withLock(\.self) == ["one", "two", "resumed", "two", "resumed"])
        }
    }

    @Test("a socket without permission is reported once, and then retried silently")
    func permission() throws {
        var attempts = StreamAttempts(backoff: LarderBackoff(fraction: { 1 }), failsOnRefusal: false)
        let denied = LarderClientError.unreachable("/run/larder.sock", errno: EACCES)
        let gone = LarderClientError.unreachable("/run/larder.sock", errno: ENOENT)
        var isRepeated: Bool?
        func reported(_ error: LarderClientError) throws -> Int? {
            let interruption = try attempts.fail(error).interruption
            isRepeated = interruption?.isRepeated
            return interruption?.attempt
        }
        #expect(try reported(denied) == 1)
        #expect(try reported(denied) == nil)
        #expect(try reported(gone) == 3)
        #expect(isRepeated == false)
        #expect(try reported(gone) == 4)
        #expect(isRepeated == true)
        #expect(try reported(denied) == 5)
        #expect(isRepeated == false)
        let isResumed = attempts.resume()
        #expect(isResumed)
        #expect(try reported(denied) == 6)
        var strict = StreamAttempts(backoff: LarderBackoff(), failsOnRefusal: true)
        #expect(throws: LarderClientError.self) { try strict.fail(denied) }
        #expect(try strict.fail(gone).interruption != nil)
    }

    @Test("after the agent ends a subscription, the stream subscribes again, and can throw the error of a refusal")
    func withdrawn() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let interruptions = Mutex(0)
            let snapshots = client.config.snapshots().failOnRefusal().onInterruption { _ in
                interruptions.withLock { $0 += 1 }
            }
            async let script: Void = {
                let connection = try await agent.accept()
                try await connection.subscription(revision: 1)
                try await connection.snapshot(1, revision: 1, "one")
                try await connection.end(2, revision: 1, reason: "namespaceRemoved")
                // The namespace exists again, so the agent accepts the subscription.
                let again = try await connection.subscription(revision: 2)
                #expect(again.params?["since"] == 1)
                try await connection.snapshot(1, revision: 2, "two")
                try await connection.end(2, revision: 2, reason: "denied")
                try await connection.fail(
                    connection.request("config.subscribe"), .denied, "requires the right \"read\"")
            }()
            var received: [Int] = []
            let failure = await error { for try await snapshot in snapshots { received.append(snapshot.revision) } }
            try await script
            #expect(received == [1, 2])
            #expect(failure?.remoteError?.code == .denied)
            #expect(interruptions.withLock { $0 } == 0)
        }
    }

    @Test("an event of an unknown kind is ignored and counted, and the stream continues on the same connection")
    func unknownKind() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let snapshots = client.config.snapshots()
            async let script: Void = {
                let connection = try await agent.accept()
                try await connection.subscription(revision: 1)
                try await connection.snapshot(1, revision: 1, "one")
                try await connection.event(2, revision: 1, #""kind":"digest","digest":"sha256:0""#)
                try await connection.snapshot(3, revision: 2, "two")
                _ = try await connection.request("config.unsubscribe")
            }()
            var received: [Int] = []
            for try await snapshot in snapshots {
                received.append(snapshot.revision)
                if snapshot.revision == 2 { break }
            }
            try await script
            #expect(received.last == 2)
            #expect(client.ignoredEvents == 1)
        }
    }

    @Test("an invalid path is rejected before anything is sent")
    func invalidPath() async throws {
        let client = LarderClient(socket: "/nonexistent")
        let failure = await error { for try await _ in client.config.snapshots(at: "/a~2") {} }
        #expect(failure?.code == .invalidArgument)
        #expect(await error { try await client.config.snapshot(at: "/a~2") }?.code == .invalidArgument)
    }

    @Test("the stream reconnects after an end event with the reason shutdown")
    func endEvent() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let script: Void = {
                let first = try await agent.accept()
                try await first.subscription(revision: 1)
                try await first.snapshot(1, revision: 1, 1)
                try await first.send(
                    #"{"jsonrpc":"2.0","method":"config.event","params":{"subscription":1,"sequence":2,"kind":"end","#
                        + #""namespace":"default","epoch":"e1","revision":1,"state":"fresh","reason":"shutdown"}}"#)
                first.close()
                let second = try await agent.accept()
                try await second.subscription(revision: 2)
                try await second.snapshot(1, revision: 2, 2)
                _ = try await second.line()
            }()
            var revisions: [Int] = []
            for try await snapshot in client.config.snapshots() {
                revisions.append(snapshot.revision)
                if revisions.count == 2 { break }
            }
            #expect(revisions == [1, 2])
            try await script
        }
    }

    @Test("attempts to reconnect are reported; their delays grow and start over after a snapshot")
    func delays() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let clock = ImmediateClock()
            let client = agent.client {
                $0.clock = clock
                $0.backoff = LarderBackoff(base: .seconds(1), cap: .seconds(4), fraction: { 0.5 })
            }
            let attempts = Mutex<[Int]>([])
            async let script: Void = {
                for _ in 0..<4 {
                    let connection = try await agent.accept()
                    _ = try await connection.request("config.subscribe")
                    connection.close()
                }
                let last = try await agent.accept()
                try await last.subscription(revision: 1)
                try await last.snapshot(1, revision: 1, 1)
                last.close()
                let next = try await agent.accept()
                try await next.subscription(revision: 2)
                try await next.snapshot(1, revision: 2, 2)
                _ = try await next.line()
            }()
            let snapshots = client.config.snapshots().onInterruption { interruption in
                attempts.withLock { $0.append(interruption.attempt) }
            }
            for try await snapshot in snapshots where snapshot.revision == 2 { break }
            try await script
            #expect(attempts.withLock(\.self) == [1, 2, 3, 4, 1])
            #expect(
                clock.sleeps == [.milliseconds(500), .seconds(1), .seconds(2), .seconds(2), .milliseconds(500)])
        }
    }
}
