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
    private var channels: [ObjectIdentifier: SnapshotChannel] = [:]

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// The topic of a path, made at its first subscription. It stands at the current snapshot.
    func topic(_ path: JSONPath, of publication: ConfigPublication) -> Topic {
        let key = ObjectIdentifier(publication)
        // It writes, and finds clients that are gone: the last one takes the channel with it.
        channels[key]?.advance()
        return channel(of: publication).topic(path)
    }

    private func channel(of publication: ConfigPublication) -> SnapshotChannel {
        let key = ObjectIdentifier(publication)
        if let channel = channels[key] { return channel }
        let channel = SnapshotChannel(publication: publication)
        channels[key] = channel
        follow(channel)
        return channel
    }

    /// Adds a wait. What is published from now on is shown to it.
    func add(_ wait: SnapshotWait) { channel(of: wait.publication).add(wait) }

    /// Removes a wait, and the channel with the last one that uses it.
    func remove(_ wait: SnapshotWait) {
        guard let channel = channels[ObjectIdentifier(wait.publication)] else { return }
        channel.remove(wait)
        removeUnused(channel)
    }

    /// Removes a subscription, its topic with the last one, and the channel with the last topic.
    func remove(_ subscription: Subscription) {
        subscription.topic.remove(subscription)
        removeUnused(subscription.topic)
    }

    /// Removes a topic to which nobody subscribes.
    func removeUnused(_ topic: Topic) {
        guard topic.subscriptions.isEmpty else { return }
        topic.channel.remove(topic)
        removeUnused(topic.channel)
    }

    private func removeUnused(_ channel: SnapshotChannel) {
        guard channel.isEmpty, let observer = channel.observer else { return }
        channel.publication.remove(observer)
        // It holds the channel, for which it is.
        channel.observer = nil
        channels[ObjectIdentifier(channel.publication)] = nil
    }

    private func follow(_ channel: SnapshotChannel) {
        let (eventLoop, bound) = (eventLoop, NIOLoopBound(channel, eventLoop: eventLoop))
        let epollLoop = eventLoop as? EpollLoop
        // A loop that is slower than the changes continues with the newest one.
        let signal = Signal { signal in
            eventLoop.execute {
                signal.take()
                if let epollLoop { bound.value.advanceInSlices(on: epollLoop) } else { bound.value.advance() }
            }
        }
        channel.observer = channel.publication.observe {
            // A few subscribers get it before the change is logged, acknowledged and written.
            if let epollLoop, epollLoop.isRunningTask {
                let channel = bound.value
                if channel.isQuick(to: channel.publication.current.snapshot) { return channel.advance() }
            }
            signal.raise()
        }
    }
}
