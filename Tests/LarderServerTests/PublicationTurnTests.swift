import LarderEventLoop
import Foundation
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore
import Testing

@testable import LarderConfig
@testable import LarderServer

/// One change of which thousands are told.
@Suite("Publications to many", .timeLimit(.minutes(2)))
struct PublicationTurnTests {
    private static let (clients, each) = (30, 60)

    /// What a client heard of one subscription.
    private struct Heard: Equatable {
        var revisions: [Int] = []
        var skipped = 0
    }

    /// What was told, answered and done when the loop came to what it was handed right after it had heard of a change.
    private final class Seen {
        var counts: [Int] = []
    }

    private static func snapshot(_ revision: Int, isLast: Bool) throws -> ConfigSnapshot {
        let members = (0..<10).map { #""a\#($0)":\#(revision)"# } + [#""last":\#(isLast)"#]
        return ConfigSnapshot(
            value: try JSONValue(parsing: Array("{\(members.joined(separator: ","))}".utf8)), revision: revision,
            publishedAt: 0)
    }

    private func crowd(_ method: String, _ context: ServerContext, _ loop: EpollLoop) async throws -> NIOLoopBound<
        ConnectionCrowd
    > {
        try await loop.submit {
            let crowd = try ConnectionCrowd(Self.clients, on: loop, context, room: 1 << 22)
            for client in 0..<Self.clients {
                for number in 0..<Self.each {
                    let path = number.isMultiple(of: 4) ? "" : "a\(number % 10)"
                    let mode = ["snapshot", "patch", "revision"][number % 3]
                    let params =
                        method == "config.wait"
                        ? #""path":"last","equals":true"# : #""path":"\#(path)","mode":"\#(mode)""#
                    crowd.send(#"{"id":\#(number),"method":"\#(method)","params":{\#(params)}}"#, by: client)
                }
            }
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
    }

    /// Publishes on the loop, and counts something once the loop has done what follows from that at once.
    private func publish(
        _ snapshots: [ConfigSnapshot], by publication: ConfigPublication, on loop: EpollLoop,
        _ count: @escaping @Sendable () -> Int
    ) async throws -> [Int] {
        let seen = try await loop.submit {
            let seen = Seen()
            for snapshot in snapshots {
                publication.publish(snapshot, status: StatusRecord(NamespaceStatus(source: nil), holding: Layers()))
            }
            let bound = NIOLoopBound(seen, eventLoop: loop)
            loop.execute { loop.execute { bound.value.counts.append(count()) } }
            return bound
        }.get()
        while try await loop.submit({ seen.value.counts.isEmpty }).get() {}
        return try await loop.submit { seen.value.counts }.get()
    }

    @Test("thousands are told a little each turn, each once of what is newest, and of no change twice")
    func subscriptions() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let publication = try #require(context.namespaces["default"]).publication
        let loop = try EpollLoop(name: "many")
        let crowd = try await crowd("config.subscribe", context, loop)
        let all = Self.clients * Self.each
        while try await loop.submit({ crowd.value.eventsSent < all }).get() {}
        var text = try await loop.submit { (0..<Self.clients).map { crowd.value.allReceived(by: $0) } }.get()
        let first = publication.current.snapshot.revision + 1
        let told = try await publish([Self.snapshot(first, isLast: false)], by: publication, on: loop) {
            crowd.value.eventsSent
        }
        #expect(told[0] < 2 * all, "not all of them are told at once")
        // While they are told of the first, others come.
        let last = first + 5
        for revision in first + 1...last {
            _ = try await publish([Self.snapshot(revision, isLast: false)], by: publication, on: loop) { 0 }
        }
        func heard() throws -> [[Int: Heard]] {
            try text.map { text in
                var heard: [Int: Heard] = [:]
                for line in text.split(separator: "\n") {
                    let params = try JSONValue(parsing: Array(line.utf8))["params"]
                    guard let id = params?["subscription"]?.int, let revision = params?["revision"]?.int else {
                        continue
                    }
                    heard[id, default: Heard()].revisions.append(revision)
                    heard[id]?.skipped += params?["skipped"]?.int ?? 0
                }
                return heard
            }
        }
        while try !heard().allSatisfy({ $0.values.allSatisfy { $0.revisions.last == last } && $0.count == Self.each }) {
            let more = try await loop.submit { (0..<Self.clients).map { crowd.value.allReceived(by: $0) } }.get()
            text = zip(text, more).map { $0 + $1 }
        }
        for client in try heard() {
            for subscription in client.values {
                #expect(zip(subscription.revisions, subscription.revisions.dropFirst()).allSatisfy { $0 < $1 })
                // The first one is what was current when it subscribed.
                #expect(subscription.revisions.count - 1 + subscription.skipped == last - first + 1)
            }
        }
        try await loop.submit { crowd.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    @Test("thousands who wait for one change are answered a little each turn, and all of them")
    func waits() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let publication = try #require(context.namespaces["default"]).publication
        let loop = try EpollLoop(name: "many")
        let crowd = try await crowd("config.wait", context, loop)
        let all = Self.clients * Self.each
        while try await loop.submit({ crowd.value.requestsInFlight < all }).get() {}
        let next = publication.current.snapshot.revision + 1
        let waiting = try await publish([Self.snapshot(next, isLast: true)], by: publication, on: loop) {
            crowd.value.requestsInFlight
        }
        #expect(waiting[0] > 0, "not all of them are answered at once")
        while try await loop.submit({ crowd.value.requestsInFlight > 0 }).get() {}
        let text = try await loop.submit { (0..<Self.clients).map { crowd.value.allReceived(by: $0) } }.get()
        for text in text {
            #expect(text.split(separator: "\n").count { $0.contains(#""revision":\#(next)"#) } == Self.each)
        }
        try await loop.submit { crowd.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    @Test(
        "what a client is sent that was behind is of the snapshot that is being told, before its turn to be told as well"
    )
    func bodiesBetweenTurns() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "many")
        let count = 400
        func snapshot(_ revision: Int) throws -> ConfigSnapshot {
            let members = (0..<count).map { #""p\#($0)":\#(revision)"# }
            let value = try JSONValue(parsing: Array("{\(members.joined(separator: ","))}".utf8))
            return ConfigSnapshot(value: value, revision: revision, publishedAt: 0)
        }
        let status = StatusRecord(NamespaceStatus(source: nil), holding: Layers())
        let publication = ConfigPublication(namespace: "default", epoch: "e", snapshot: try snapshot(7), status: status)
        let new = try snapshot(8)
        let texts = try await loop.submit {
            let crowd = try ConnectionCrowd(1, on: loop, context)
            let channel = SnapshotChannel(publication, on: loop)
            let subscriptions = (0..<count).map { number in
                let topic = channel.topic(JSONPath(["p\(number)"]))
                let subscription = Subscription(
                    id: number, connection: crowd.connections[0].connection, topic: topic, mode: .snapshot)
                topic.add(subscription)
                return subscription
            }
            func bodies() -> [String] {
                let event = Subscription.State.Event(sequence: 1, skipped: 0, base: 7, reason: nil)
                return subscriptions.map { String(buffer: $0.topic.body(of: event, .snapshot)) }
            }
            publication.publish(new, status: status)
            let before = bodies()
            channel.advance(to: new)
            let after = bodies()
            crowd.close()
            for subscription in subscriptions { channel.remove(subscription.topic) }
            return (before, after)
        }.get()
        #expect(texts.0.allSatisfy { $0.contains(#""value":7"#) })
        #expect(texts.1.count { $0.contains(#""value":8"#) } == count)
        loop.stop()
        await context.namespaces.stop()
    }
}
