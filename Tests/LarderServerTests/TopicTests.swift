import JSON
import LarderWire
import NIOCore
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("A topic")
struct TopicTests {
    private static func publication() -> ConfigPublication {
        ConfigPublication(
            namespace: "default", epoch: "e",
            snapshot: ConfigSnapshot(value: ["a": 1], revision: 7, digest: "", publishedAt: 0),
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
}
