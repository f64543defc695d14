import JSON
import LarderWire
import NIOCore
import NIOEmbedded
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("A topic")
struct TopicTests {
    private static func publication() -> ConfigPublication {
        ConfigPublication(
            namespace: "default", epoch: "e",
            snapshot: ConfigSnapshot(value: ["a": 1], revision: 7, publishedAt: 0),
            status: StatusRecord(NamespaceStatus(source: nil), holding: Layers()))
    }

    @Test("it can be asked for its feed also when the feed is gone from the hub, and neither keeps the other then")
    func feedOutlived() throws {
        var topic: Topic?
        weak var feed: Feed?
        do {
            let made = Feed(publication: Self.publication())
            topic = made.topic(try JSONPath("a"))
            feed = made
            if let topic { made.remove(topic) }
        }
        #expect(topic?.feed.snapshot.revision == 7)
        #expect(topic?.encode(.end(.shutdown)).readableBytes ?? 0 > 0)
        topic = nil
        #expect(feed == nil)
    }

    @Test("what the hub made for a topic is gone with its last topic", arguments: [false, true])
    func released(afterPublication: Bool) throws {
        let loop = EmbeddedEventLoop()
        let hub = SubscriptionHub(eventLoop: loop)
        let publication = Self.publication()
        weak var feed: Feed?
        do {
            let topic = hub.topic(try JSONPath(parsing: "a"), of: publication)
            feed = topic.feed
            if afterPublication {
                publication.publish(
                    ConfigSnapshot(value: ["a": 2], revision: 8, publishedAt: 0),
                    status: StatusRecord(NamespaceStatus(source: nil), holding: Layers()))
            }
            loop.run()
            #expect(feed?.snapshot.revision == (afterPublication ? 8 : 7))
            hub.removeUnused(topic)
        }
        loop.run()
        #expect(feed == nil)
    }
}
