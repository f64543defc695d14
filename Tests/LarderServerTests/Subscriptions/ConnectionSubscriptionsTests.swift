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

@Suite("Subscriptions of a connection")
struct ConnectionSubscriptionsTests {
    @Test("subscription ids are not reused, and each subscription that lags is returned once unless it was removed")
    func randomWalk() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "subscriptions")
        try await loop.submit {
            let group = try ConnectionGroup(1, on: loop, context)
            for seed in 0..<100 { Self.walk(UInt64(seed), group.connections[0].connection) }
            group.close()
        }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    private static func walk(_ seed: UInt64, _ connection: Connection) {
        var generator = SeededGenerator(seed: seed)
        let publication = ConfigPublication(
            namespace: "default", epoch: "e",
            snapshot: ConfigSnapshot(value: .emptyObject, revision: 1, publishedAt: 0),
            status: PublishedStatus(NamespaceStatus(source: nil), holding: Layers()))
        let channel = SnapshotChannel(publication, on: connection.loop.eventLoop)
        let topic = Topic(JSONPath([]), channel: channel)
        var subscriptions = ConnectionSubscriptions()
        var (open, lagging, lastID): ([Subscription], [Int], Int) = ([], [], 0)
        for _ in 0..<200 {
            switch Int.random(in: 0..<8, using: &generator) {
            case 0...2:
                let id = subscriptions.nextID()
                #expect(id == lastID + 1)
                lastID = id
                let subscription = Subscription(id: id, connection: connection, topic: topic, mode: .snapshot)
                subscriptions.add(subscription)
                open.append(subscription)
            case 3...4:
                guard let index = open.indices.randomElement(using: &generator) else { continue }
                let removed = open.remove(at: index)
                lagging.removeAll { $0 == removed.id }
                let (first, second) = (subscriptions.remove(removed), subscriptions.remove(removed))
                #expect(first && !second && subscriptions[removed.id] == nil)
            case 5...6:
                guard let subscription = open.randomElement(using: &generator), !lagging.contains(subscription.id)
                else { continue }
                subscriptions.addLagging(subscription)
                lagging.append(subscription.id)
            default:
                let taken = subscriptions.takeLagging()
                #expect(taken.map(\.id) == lagging)
                lagging = []
            }
            #expect(subscriptions.count == open.count && subscriptions.isEmpty == open.isEmpty)
            #expect(subscriptions.sorted.map(\.id) == open.map(\.id))
        }
    }
}
