import JSON
import LarderConfig
import LarderWire
import NIOCore

/// Brings new snapshots to the subscriptions and waits of one event loop: one stream per namespace and loop, however many
/// there are.
final class SubscriptionHub {
    private let eventLoop: any EventLoop
    private let taskExecutor: LoopTaskExecutor?
    private var feeds: [ObjectIdentifier: Feed] = [:]

    /// - Parameter taskExecutor: runs the followers; where there is none, each snapshot takes a change of threads more.
    init(eventLoop: any EventLoop, taskExecutor: LoopTaskExecutor?) {
        self.eventLoop = eventLoop
        self.taskExecutor = taskExecutor
    }

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
        guard feed.isEmpty, let follower = feed.follower else { return }
        follower.cancel()
        feeds[ObjectIdentifier(feed.publication)] = nil
    }

    private func follow(_ feed: Feed) {
        let follower = LoopFollower(eventLoop: eventLoop)
        let bound = NIOLoopBound(feed, eventLoop: eventLoop)
        let publication = feed.publication
        feed.follower = Task(executorPreference: taskExecutor) {
            await follower.follow(publication) { bound.value.advance(to: $0) }
        }
    }
}

/// Runs the loop over a stream of snapshots on an event loop, so that a snapshot takes one hop from the store to the
/// sockets.
private actor LoopFollower {
    private let eventLoop: any EventLoop

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    func follow(_ publication: ConfigPublication, _ body: @Sendable (ConfigPublication.Current) -> Void) async {
        for await current in publication.follow() { body(current) }
    }
}

/// One namespace as the subscriptions of one event loop see it.
final class Feed {
    let publication: ConfigPublication
    private(set) var snapshot: ConfigSnapshot
    var follower: Task<Void, Never>?
    private var topics: [JSONPath: Topic] = [:]
    private var waits: [ObjectIdentifier: SnapshotWait] = [:]
    /// The revision before the current one, as this loop saw them.
    private var previousRevision: Int

    init(publication: ConfigPublication) {
        self.publication = publication
        snapshot = publication.current.snapshot
        previousRevision = snapshot.revision
    }

    var isEmpty: Bool { topics.isEmpty && waits.isEmpty }

    func topic(_ path: JSONPath) -> Topic {
        if let topic = topics[path] { return topic }
        let topic = Topic(path: path, feed: self)
        topics[path] = topic
        return topic
    }

    func remove(_ topic: Topic) { topics[topic.path] = nil }

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
