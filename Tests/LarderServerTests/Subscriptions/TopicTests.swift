import LarderConfigModel
import LarderEventLoop
import LarderJSON
import LarderProtocol
import NIOCore
import NIOEmbedded
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("Topics")
struct TopicTests {
    private static func publication() -> ConfigPublication {
        ConfigPublication(
            namespace: "default", epoch: "e",
            snapshot: ConfigSnapshot(value: ["a": 1], revision: 7, publishedAt: 0),
            status: PublishedStatus(NamespaceStatus(source: nil), holding: Layers()))
    }

    @Test(
        "a topic that its channel has removed retains the channel until the topic is released")
    func channelOutlived() throws {
        var topic: Topic?
        weak var channel: SnapshotChannel?
        do {
            let made = SnapshotChannel(Self.publication(), on: EmbeddedEventLoop())
            topic = made.topic(try JSONPath("a"))
            channel = made
            if let topic { made.removeIfUnused(topic) }
        }
        #expect(topic?.channel.revision == 7)
        #expect(topic?.encode(.end(.shutdown)).readableBytes ?? 0 > 0)
        topic = nil
        #expect(channel == nil)
    }

    @Test("the channel of a namespace is released with its last topic", arguments: [false, true])
    func released(afterPublication: Bool) throws {
        let loop = EmbeddedEventLoop()
        let hub = SubscriptionHub(eventLoop: loop)
        let publication = Self.publication()
        weak var channel: SnapshotChannel?
        do {
            let topic = hub.topic(try JSONPath(parsing: "a"), of: publication)
            channel = topic.channel
            if afterPublication {
                publication.publish(
                    ConfigSnapshot(value: ["a": 2], revision: 8, publishedAt: 0),
                    status: PublishedStatus(NamespaceStatus(source: nil), holding: Layers()))
            }
            loop.run()
            #expect(channel?.snapshot.revision == (afterPublication ? 8 : 7))
            topic.channel.removeIfUnused(topic)
        }
        loop.run()
        #expect(channel == nil)
    }

    /// Publishes revision 8 on the loop of a channel. Returns the revision of the channel when `publish` returns (7
    /// before the delivery), and its revision a loop iteration later.
    private static func revisions(topics: Int, value: JSONValue = 2, byTask: Bool) async throws -> [Int] {
        let loop = try EpollLoop(name: "hub")
        defer { loop.stop() }
        let publication = publication()
        let channel = try await loop.submit {
            let hub = SubscriptionHub(eventLoop: loop)
            let made = try (1...topics).map { hub.topic(try JSONPath(parsing: "p\($0)"), of: publication) }
            return NIOLoopBound((hub, made[0].channel), eventLoop: loop)
        }.get()
        let publish: @Sendable () -> Int = {
            publication.publish(
                ConfigSnapshot(value: ["p1": value], revision: 8, publishedAt: 0),
                status: PublishedStatus(NamespaceStatus(source: nil), holding: Layers()))
            return channel.value.1.snapshot.revision
        }
        let first =
            byTask
            ? await Task(executorPreference: LoopTaskExecutor(loop)) { publish() }.value
            : try await loop.submit(publish).get()
        return [first, try await loop.submit { channel.value.1.snapshot.revision }.get()]
    }

    @Test("a single topic advances to the new snapshot before the publishing task continues")
    func singleTopicAdvancesInPlace() async throws {
        #expect(try await Self.revisions(topics: 1, byTask: true) == [8, 8])
    }

    @Test("many topics advance to the new snapshot after the publishing task has continued")
    func manyAdvanceLater() async throws {
        #expect(try await Self.revisions(topics: 5, byTask: true) == [7, 8])
    }

    @Test("topics advance to a large snapshot after the publishing task has continued")
    func largeAdvancesLater() async throws {
        let text: JSONValue = .string(String(repeating: "x", count: 20_000))
        #expect(try await Self.revisions(topics: 1, value: text, byTask: true) == [7, 8])
    }

    @Test("if work on the loop publishes, topics advance only after it ends: it may be writing to clients")
    func advanceAfterOtherWork() async throws {
        #expect(try await Self.revisions(topics: 1, byTask: false) == [7, 8])
    }
}
