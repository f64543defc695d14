import LarderConfig
import LarderConfigModel
import LarderJSON

/// Delivers new snapshots to the subscriptions and pending `config.wait` requests of one event loop, through one
/// channel per namespace.
final class SubscriptionHub {
    private let eventLoop: any ServerEventLoop
    private var channels: [ObjectIdentifier: SnapshotChannel] = [:]

    init(eventLoop: any ServerEventLoop) { self.eventLoop = eventLoop }

    /// Returns the topic of a path, after delivering the current snapshot to the existing topics. Creates the topic for
    /// the first subscription.
    func topic(_ path: JSONPath, of publication: ConfigPublication) -> Topic {
        // `catchUp` writes events to clients. A write may close the connection of the channel's last subscription, and
        // that removes the channel. The channel is therefore looked up again.
        channels[ObjectIdentifier(publication)]?.catchUp()
        return channel(of: publication).topic(path)
    }

    private func channel(of publication: ConfigPublication) -> SnapshotChannel {
        let key = ObjectIdentifier(publication)
        if let channel = channels[key] { return channel }
        let channel = SnapshotChannel(publication, on: eventLoop)
        channels[key] = channel
        channel.start()
        return channel
    }

    /// Adds a wait, which is checked at each further snapshot.
    func add(_ wait: SnapshotWait) { channel(of: wait.publication).add(wait) }

    /// Removes a wait, and its channel if that has become unused.
    func remove(_ wait: SnapshotWait) {
        guard let channel = channels[ObjectIdentifier(wait.publication)] else { return }
        channel.remove(wait)
        removeUnused(channel)
    }

    /// Removes a subscription, and its topic and channel if they have become unused.
    func remove(_ subscription: Subscription) {
        subscription.topic.remove(subscription)
        removeUnused(subscription.topic)
    }

    /// Removes a topic if it has no subscriptions, and its channel if that has become unused.
    func removeUnused(_ topic: Topic) {
        guard topic.subscriptions.isEmpty else { return }
        topic.channel.remove(topic)
        removeUnused(topic.channel)
    }

    private func removeUnused(_ channel: SnapshotChannel) {
        let key = ObjectIdentifier(channel.publication)
        guard channel.isEmpty, channels[key] === channel else { return }
        channel.stop()
        channels[key] = nil
    }
}

/// The delivery of one snapshot to the topics and pending waits of a channel. It performs no I/O: it returns one step
/// at a time, so that the channel can serve other clients between steps.
struct Broadcast {
    enum Step {
        /// Offer the snapshot to a subscription of a topic whose value has changed.
        case offer(Subscription)
        /// Do nothing: this step only compared the value of a topic with the snapshot.
        case compared
        /// Check the condition of a wait.
        case check(SnapshotWait)
    }

    /// The snapshot of the channel before ``current``.
    let previous: ConfigSnapshot
    let current: ConfigSnapshot
    private let topics: [Topic]
    private let waits: [SnapshotWait]
    private var (nextTopic, nextWait) = (0, 0)
    /// The topic whose subscriptions are being served. Subscriptions that are added during that time are left out,
    /// because they already start at the new snapshot.
    private var topic: Topic?
    private var subscriptions: [Subscription] = []
    private var nextSubscription = 0

    init(from previous: ConfigSnapshot, to current: ConfigSnapshot, _ topics: [Topic], _ waits: [SnapshotWait]) {
        self.previous = previous
        self.current = current
        self.topics = topics
        self.waits = waits
    }

    /// The next step; nil after the last one. Inlined, because returning a step from a call retains three references.
    @inline(__always)
    mutating func next() -> Step? {
        if nextSubscription < subscriptions.count {
            defer { nextSubscription += 1 }
            return .offer(subscriptions[nextSubscription])
        }
        topic?.forgetBase()
        (topic, subscriptions, nextSubscription) = (nil, [], 0)
        if nextTopic < topics.count {
            let topic = topics[nextTopic]
            nextTopic += 1
            if topic.advance(from: previous, to: current) {
                self.topic = topic
                subscriptions = topic.subscriptions
            }
            return .compared
        }
        guard nextWait < waits.count else { return nil }
        defer { nextWait += 1 }
        return .check(waits[nextWait])
    }
}
