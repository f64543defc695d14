import Foundation
import LarderConfigModel
import LarderEventLoop
import LarderJSON
import LarderProtocol
import NIOCore
import TestSupport
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("Broadcasts")
struct BroadcastTests {
    @Test(
        "a broadcast returns each subscription of a changed topic once, then each wait, even if subscriptions are added or end"
    )
    func randomWalk() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "broadcast")
        try await loop.submit {
            let group = try ConnectionGroup(1, on: loop, context)
            for seed in 0..<100 { try Self.walk(UInt64(seed), group.connections[0].connection) }
            group.close()
        }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    private static func walk(_ seed: UInt64, _ connection: Connection) throws {
        var generator = SeededGenerator(seed: seed)
        let count = 6
        func snapshot(_ revision: Int, changed: Set<Int>) -> ConfigSnapshot {
            let members = (0..<count).map { ("p\($0)", JSONValue.int(changed.contains($0) ? revision : 0)) }
            return ConfigSnapshot(
                value: .object(members).detached(), revision: revision, publishedAt: 0
            )
        }
        let changed = Set((0..<count).filter { _ in Bool.random(using: &generator) })
        let (old, new) = (snapshot(1, changed: []), snapshot(2, changed: changed))
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: old,
            status: PublishedStatus(NamespaceStatus(source: nil), holding: Layers()))
        let channel = SnapshotChannel(publication, on: connection.loop.eventLoop)
        let topics = (0..<count).map { channel.topic(JSONPath(["p\($0)"])) }
        // Retains removed subscriptions, so that a new subscription cannot have the identity of a removed one.
        var all: [Subscription] = []
        func join(_ topic: Topic) {
            let subscription = Subscription(id: 0, connection: connection, topic: topic, mode: .snapshot)
            all.append(subscription)
            topic.add(subscription)
        }
        for _ in 0..<20 { join(topics[Int.random(in: 0..<count, using: &generator)]) }
        let waits = (0..<4).map { _ in
            SnapshotWait(ConfigWait.Parameters(.exists(true), path: JSONPath(["x"])), publication)
        }
        var broadcast = Broadcast(from: old, to: new, topics.shuffled(using: &generator), waits)
        var (offered, checked, compared) = ([ObjectIdentifier](), [ObjectIdentifier](), 0)
        // The subscriptions of each changed topic at the time when the topic was compared.
        var expected: [ObjectIdentifier] = []
        while true {
            let before = topics.map { ($0, $0.lastChanged, $0.subscriptions) }
            guard let step = broadcast.next() else { break }
            switch step {
            case .offer(let subscription):
                #expect(checked.isEmpty)
                offered.append(ObjectIdentifier(subscription))
            case .compared:
                compared += 1
                #expect(
                    offered == expected,
                    "a subscription of the previous topic was not offered the snapshot, or another one was")
                for (topic, lastChanged, subscriptions) in before where topic.lastChanged != lastChanged {
                    expected += subscriptions.map(ObjectIdentifier.init)
                }
            case .check(let wait): checked.append(ObjectIdentifier(wait))
            }
            let topic = topics[Int.random(in: 0..<count, using: &generator)]
            if Bool.random(using: &generator) {
                join(topic)
            } else if let subscription = topic.subscriptions.randomElement(using: &generator) {
                topic.remove(subscription)
            }
        }
        #expect(offered == expected && Set(offered).count == offered.count)
        #expect(checked == waits.map(ObjectIdentifier.init))
        #expect(compared == count && broadcast.next() == nil)
        for (number, topic) in topics.enumerated() {
            #expect(topic.lastChanged == (changed.contains(number) ? 2 : 1))
            for subscription in topic.subscriptions { topic.remove(subscription) }
            channel.removeIfUnused(topic)
        }
    }
}
