import LarderEventLoop
import LarderJSON
import LarderConfig
import LarderPlatform
import LarderUpstream
import LarderProtocol
import NIOCore

/// Brings new snapshots to the subscriptions and waits of one event loop: once per namespace and loop, however many there are.
final class SubscriptionHub {
    private let eventLoop: any EventLoop
    private var feeds: [ObjectIdentifier: Feed] = [:]

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// The topic of a path, made at its first subscription. It stands at the current snapshot.
    func topic(_ path: JSONPath, of publication: ConfigPublication) -> Topic {
        let key = ObjectIdentifier(publication)
        // It writes, and finds clients that are gone: the last one takes the feed with it.
        feeds[key]?.advance()
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
        // A loop that is slower than the changes continues with the newest one.
        let signal = Signal { signal in
            eventLoop.execute {
                signal.take()
                if let epollLoop { bound.value.goOn(on: epollLoop) } else { bound.value.advance() }
            }
        }
        feed.observer = feed.publication.observe {
            // A few subscribers get it before the change is logged, acknowledged and written.
            if let epollLoop, epollLoop.isRunningTask {
                let feed = bound.value
                if feed.isQuick(to: feed.publication.current.snapshot) { return feed.advance() }
            }
            signal.raise()
        }
    }
}
