import JSON
import LarderConfig
import LarderWire
import NIOCore
import Synchronization

/// Brings new snapshots to the subscriptions and waits of one event loop: once per namespace and loop, however many there are.
final class SubscriptionHub {
    private let eventLoop: any EventLoop
    private var feeds: [ObjectIdentifier: Feed] = [:]

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// The topic of a path, made at its first subscription. It stands at the current snapshot.
    func topic(_ path: JSONPath, of publication: ConfigPublication) -> Topic {
        let key = ObjectIdentifier(publication)
        // It writes, and finds clients that are gone: the last one takes the feed with it.
        feeds[key]?.advance(to: publication.current)
        return feed(of: publication).topic(path)
    }

    private func feed(of publication: ConfigPublication) -> Feed {
        let key = ObjectIdentifier(publication)
        if let feed = feeds[key] { return feed }
        let feed = Feed(publication: publication)
        feeds[key] = feed
        follow(feed)
        return feed
    }

    /// Adds a wait. What is published from now on is shown to it.
    func add(_ wait: SnapshotWait) { feed(of: wait.publication).add(wait) }

    /// Removes a wait, and the feed with the last one that uses it.
    func remove(_ wait: SnapshotWait) {
        guard let feed = feeds[ObjectIdentifier(wait.publication)] else { return }
        feed.remove(wait)
        removeUnused(feed)
    }

    /// Removes a subscription, its topic with the last one, and the feed with the last topic.
    func remove(_ subscription: Subscription) {
        subscription.topic.remove(subscription)
        removeUnused(subscription.topic)
    }

    /// Removes a topic to which nobody subscribes.
    func removeUnused(_ topic: Topic) {
        guard topic.subscriptions.isEmpty else { return }
        topic.feed.remove(topic)
        removeUnused(topic.feed)
    }

    private func removeUnused(_ feed: Feed) {
        guard feed.isEmpty, let observer = feed.observer else { return }
        feed.publication.remove(observer)
        // It holds the feed, for which it is.
        feed.observer = nil
        feeds[ObjectIdentifier(feed.publication)] = nil
    }

    private func follow(_ feed: Feed) {
        let (eventLoop, bound) = (eventLoop, NIOLoopBound(feed, eventLoop: eventLoop))
        let epollLoop = eventLoop as? EpollLoop
        let news = News()
        feed.observer = feed.publication.observe {
            // A few have it before the change is logged, answered and noted for the disk. A crowd would keep the store.
            if let epollLoop, epollLoop.isInStep {
                let current = bound.value.publication.current
                if bound.value.isQuick(to: current.snapshot) { return bound.value.advance(to: current) }
            }
            // A loop that is slower than the changes goes on to the newest one.
            guard news.begin() else { return }
            eventLoop.execute {
                news.end()
                bound.value.advance(to: bound.value.publication.current)
            }
        }
    }
}

/// Whether a loop was told of something new and did not look at it yet.
private final class News: Sendable {
    private let isUnseen = Atomic<Bool>(false)

    /// - Returns: whether it is to be told.
    func begin() -> Bool { !isUnseen.exchange(true, ordering: .acquiringAndReleasing) }

    /// It looks now, and sees at least what was there when ``begin()`` said no.
    func end() { _ = isUnseen.exchange(false, ordering: .acquiringAndReleasing) }
}

/// One namespace as the subscriptions of one event loop see it.
final class Feed {
    let publication: ConfigPublication
    private(set) var snapshot: ConfigSnapshot
    var observer: ConfigPublication.Observer?
    private var topics: [HashedPath: Topic] = [:]
    private var waits: [ObjectIdentifier: SnapshotWait] = [:]
    /// The revision before the current one, as this loop saw them.
    private var previousRevision: Int

    init(publication: ConfigPublication) {
        self.publication = publication
        snapshot = publication.current.snapshot
        previousRevision = snapshot.revision
    }

    var isEmpty: Bool { topics.isEmpty && waits.isEmpty }

    /// Whether to tell all of them of a snapshot is a matter of microseconds.
    func isQuick(to snapshot: ConfigSnapshot) -> Bool {
        snapshot.bytes <= Self.smallBytes && topics.count + waits.count <= Self.few
            && topics.values.reduce(0) { $0 + $1.subscriptions.count } <= Self.few
    }

    private static let few = 4
    private static let smallBytes = 16 * 1024

    func topic(_ path: JSONPath) -> Topic {
        let key = HashedPath(path)
        if let topic = topics[key] { return topic }
        let topic = Topic(key, feed: self)
        topics[key] = topic
        return topic
    }

    func remove(_ topic: Topic) { topics[topic.key] = nil }

    func add(_ wait: SnapshotWait) { waits[ObjectIdentifier(wait)] = wait }

    func remove(_ wait: SnapshotWait) { waits[ObjectIdentifier(wait)] = nil }

    /// Goes on to a newer snapshot and offers it to the subscriptions whose value changed.
    func advance(to current: ConfigPublication.Current) {
        let (old, new) = (snapshot, current.snapshot)
        if new.revision > old.revision {
            snapshot = new
            previousRevision = old.revision
            for topic in topics.values where topic.advance(from: old, to: new) {
                for subscription in topic.subscriptions {
                    subscription.session?.offer(subscription, after: previousRevision)
                }
                topic.forgetBase()
            }
            for wait in waits.values { wait.look(at: current) }
        }
        if current.hasEnded {
            let subscriptions = topics.values.flatMap(\.subscriptions)
            for subscription in subscriptions { subscription.session?.end(subscription, .namespaceRemoved) }
            for wait in waits.values { wait.giveUp(.namespaceRemoved) }
        }
    }
}
