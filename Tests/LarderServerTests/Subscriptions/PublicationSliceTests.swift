import LarderEventLoop
import Foundation
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("Delivery to many subscriptions", .timeLimit(.minutes(15)))
struct PublicationSliceTests {
    private static let (clients, each) = (30, 60)

    /// The events that a client received for one subscription.
    private struct Events: Equatable {
        var revisions: [Int] = []
        var skipped = 0
    }

    private final class Counts {
        var values: [Int] = []
    }

    private static func snapshot(_ revision: Int, isLast: Bool) throws -> ConfigSnapshot {
        let members = (0..<10).map { #""a\#($0)":\#(revision)"# } + [#""last":\#(isLast)"#]
        return ConfigSnapshot(
            value: try JSONValue(parsing: Array("{\(members.joined(separator: ","))}".utf8)), revision: revision,
            publishedAt: 0)
    }

    private func group(_ method: String, _ context: ServerContext, _ loop: EpollLoop) async throws -> NIOLoopBound<
        ConnectionGroup
    > {
        try await loop.submit {
            let group = try ConnectionGroup(Self.clients, on: loop, context, room: 1 << 22)
            for client in 0..<Self.clients {
                for number in 0..<Self.each {
                    let path = number.isMultiple(of: 4) ? "" : "a\(number % 10)"
                    let mode = ["snapshot", "patch", "revision"][number % 3]
                    let params =
                        method == "config.wait"
                        ? #""path":"last","equals":true"# : #""path":"\#(path)","mode":"\#(mode)""#
                    group.send(#"{"id":\#(number),"method":"\#(method)","params":{\#(params)}}"#, by: client)
                }
            }
            return NIOLoopBound(group, eventLoop: loop)
        }.get()
    }

    /// Publishes the snapshots on the loop. Returns an array of one element: the value of `count` after the first time
    /// slice of the delivery.
    private func publish(
        _ snapshots: [ConfigSnapshot], by publication: ConfigPublication, on loop: EpollLoop,
        _ count: @escaping @Sendable () -> Int
    ) async throws -> [Int] {
        let result = try await loop.submit {
            let result = Counts()
            for snapshot in snapshots {
                publication.publish(snapshot, status: PublishedStatus(NamespaceStatus(source: nil), holding: Layers()))
            }
            let bound = NIOLoopBound(result, eventLoop: loop)
            loop.execute { loop.execute { bound.value.values.append(count()) } }
            return bound
        }.get()
        while try await loop.submit({ result.value.values.isEmpty }).get() {}
        return try await loop.submit { result.value.values }.get()
    }

    @Test("many subscriptions are served in time slices, with increasing revisions and correct skip counts")
    func subscriptions() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let publication = try #require(context.namespaces["default"]).publication
        let loop = try EpollLoop(name: "many")
        let group = try await group("config.subscribe", context, loop)
        let all = Self.clients * Self.each
        while try await loop.submit({ group.value.eventsSent < all }).get() {}
        var text = try await loop.submit { (0..<Self.clients).map { group.value.allReceived(by: $0) } }.get()
        let first = publication.current.snapshot.revision + 1
        let sent = try await publish([Self.snapshot(first, isLast: false)], by: publication, on: loop) {
            group.value.eventsSent
        }
        #expect(sent[0] < 2 * all, "the first time slice served all subscriptions")
        // Further revisions are published during the delivery of the first.
        let last = first + 5
        for revision in first + 1...last {
            _ = try await publish([Self.snapshot(revision, isLast: false)], by: publication, on: loop) { 0 }
        }
        func received() throws -> [[Int: Events]] {
            try text.map { text in
                var received: [Int: Events] = [:]
                for line in text.split(separator: "\n") {
                    let params = try JSONValue(parsing: Array(line.utf8))["params"]
                    guard let id = params?["subscription"]?.int, let revision = params?["revision"]?.int else {
                        continue
                    }
                    received[id, default: Events()].revisions.append(revision)
                    received[id]?.skipped += params?["skipped"]?.int ?? 0
                }
                return received
            }
        }
        while try !received().allSatisfy({ $0.values.allSatisfy { $0.revisions.last == last } && $0.count == Self.each }
        ) {
            let more = try await loop.submit { (0..<Self.clients).map { group.value.allReceived(by: $0) } }.get()
            text = zip(text, more).map { $0 + $1 }
        }
        for client in try received() {
            for subscription in client.values {
                #expect(zip(subscription.revisions, subscription.revisions.dropFirst()).allSatisfy { $0 < $1 })
                // The first event does not count: it has the snapshot that was current when the client subscribed.
                #expect(subscription.revisions.count - 1 + subscription.skipped == last - first + 1)
            }
        }
        try await loop.submit { group.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    @Test("many requests that wait for one change are answered in time slices")
    func waits() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let publication = try #require(context.namespaces["default"]).publication
        let loop = try EpollLoop(name: "many")
        let group = try await group("config.wait", context, loop)
        let all = Self.clients * Self.each
        while try await loop.submit({ group.value.requestsInFlight < all }).get() {}
        let next = publication.current.snapshot.revision + 1
        let waiting = try await publish([Self.snapshot(next, isLast: true)], by: publication, on: loop) {
            group.value.requestsInFlight
        }
        #expect(waiting[0] > 0, "the first time slice answered all requests")
        while try await loop.submit({ group.value.requestsInFlight > 0 }).get() {}
        let text = try await loop.submit { (0..<Self.clients).map { group.value.allReceived(by: $0) } }.get()
        for text in text {
            #expect(text.split(separator: "\n").count { $0.contains(#""revision":\#(next)"#) } == Self.each)
        }
        try await loop.submit { group.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    @Test(
        "a lagging subscription gets the snapshot that is being delivered, even before its topic is compared"
    )
    func bodiesDuringBroadcast() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "many")
        let count = 400
        func snapshot(_ revision: Int) throws -> ConfigSnapshot {
            let members = (0..<count).map { #""p\#($0)":\#(revision)"# }
            let value = try JSONValue(parsing: Array("{\(members.joined(separator: ","))}".utf8))
            return ConfigSnapshot(value: value, revision: revision, publishedAt: 0)
        }
        let status = PublishedStatus(NamespaceStatus(source: nil), holding: Layers())
        let publication = ConfigPublication(namespace: "default", epoch: "e", snapshot: try snapshot(7), status: status)
        let new = try snapshot(8)
        let texts = try await loop.submit {
            let group = try ConnectionGroup(1, on: loop, context)
            let channel = SnapshotChannel(publication, on: loop)
            let subscriptions = (0..<count).map { number in
                let topic = channel.topic(JSONPath(["p\(number)"]))
                let subscription = Subscription(
                    id: number, connection: group.connections[0].connection, topic: topic, mode: .snapshot)
                topic.add(subscription)
                return subscription
            }
            func bodies() -> [String] {
                let event = SubscriptionState.Event(sequence: 1, skipped: 0, base: 7, reason: nil)
                return subscriptions.map { String(buffer: $0.topic.body(of: event, .snapshot)) }
            }
            publication.publish(new, status: status)
            let before = bodies()
            channel.advance(to: new)
            let after = bodies()
            group.close()
            for subscription in subscriptions {
                subscription.topic.remove(subscription)
                channel.removeIfUnused(subscription.topic)
            }
            return (before, after)
        }.get()
        #expect(texts.0.allSatisfy { $0.contains(#""value":7"#) })
        #expect(texts.1.count { $0.contains(#""value":8"#) } == count)
        loop.stop()
        await context.namespaces.stop()
    }
}
