import LarderConfig
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
