import LarderConfig
import LarderJSON

/// Carries new snapshots to the subscriptions and waits of one event loop: once per namespace, for any number of them.
final class SubscriptionHub {
    private let eventLoop: any ServerEventLoop
    private var channels: [ObjectIdentifier: SnapshotChannel] = [:]

    init(eventLoop: any ServerEventLoop) { self.eventLoop = eventLoop }

    /// The topic of a path, made at its first subscription. It stands at the current snapshot.
    func topic(_ path: JSONPath, of publication: ConfigPublication) -> Topic {
        // A write may close the connection of the last subscription, which removes the channel.
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

    /// Adds a wait, which is checked at each snapshot from now on.
    func add(_ wait: SnapshotWait) { channel(of: wait.publication).add(wait) }

    /// Removes a wait, and its channel if that is unused.
    func remove(_ wait: SnapshotWait) {
        guard let channel = channels[ObjectIdentifier(wait.publication)] else { return }
        channel.remove(wait)
        removeUnused(channel)
    }

    /// Removes a subscription, and its topic and channel if they are unused.
    func remove(_ subscription: Subscription) {
        subscription.topic.remove(subscription)
        removeUnused(subscription.topic)
    }

    /// Removes a topic without subscriptions, and its channel if that is unused.
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
