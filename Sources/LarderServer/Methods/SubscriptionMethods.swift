import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore

extension Connection {
    /// Bodies up to this size are copied behind their head; for larger ones the system call takes two pieces.
    private static let smallBody = 4096

    /// Opens a subscription. Its first event, where there is one, follows the reply.
    func subscribe(_ parameters: ConfigSubscribe.Parameters) throws(WireError) -> MethodTable.ConnectionReply {
        if isFinishing { throw WireError(.shuttingDown, "the agent is stopping; subscribe again once it is back") }
        let publication = try scope.namespace(parameters.namespace).publication
        let heldBytes = try admitSubscription(to: parameters.path)
        // The topic may find news for other connections of this loop, which are written through the same buffer.
        flush()
        let topic = loop.hub.topic(parameters.path, of: publication)
        // Any write may find that the client is gone, and what it had is removed at once.
        if isClosed {
            loop.hub.removeUnused(topic)
            endSubscription(holding: heldBytes)
            throw WireError(.cancelled, "the connection is gone")
        }
        nextSubscription += 1
        let subscription = Subscription(
            id: nextSubscription, connection: self, topic: topic, mode: parameters.mode,
            delivered: topic.feed.snapshot.revision, heldBytes: heldBytes)
        subscriptions[subscription.id] = subscription
        topic.add(subscription)
        loop.traffic.subscriptionsOpen += 1
        prepareFirstEvent(of: subscription, parameters)
        if needsEvent(subscription) { subscription.firstMissed = topic.feed.snapshot.revision }
        let result = ConfigSubscribe.Result(
            subscription: subscription.id, revision: topic.feed.snapshot.revision, epoch: publication.epoch,
            state: ConfigState(publication.current.freshness))
        return MethodTable.ConnectionReply(result: result) {
            guard self.subscriptions[subscription.id] === subscription else { return }
            subscription.isAnnounced = true
            if let reason = subscription.pendingEnd { return self.end(subscription, reason) }
            if self.needsEvent(subscription) { self.offer(subscription, after: result.revision) }
        }
    }

    /// Compares what the client holds with what is current.
    private func prepareFirstEvent(of subscription: Subscription, _ parameters: ConfigSubscribe.Parameters) {
        let topic = subscription.topic
        let current = topic.feed.snapshot.revision
        guard current > 0 else {
            subscription.delivered = 0
            subscription.pendingReason = .initial
            return
        }
        guard let since = parameters.since else {
            subscription.pendingReason = .initial
            return
        }
        if parameters.epoch.map({ $0 != topic.feed.publication.epoch }) ?? false || since > current {
            subscription.pendingReason = .restart
        } else if since < current, !topic.isUnchanged(since: since) {
            subscription.delivered = since
            if subscription.mode != .patch || topic.feed.publication.recent(revision: since) == nil {
                subscription.pendingReason = .gap
            }
        }
    }

    /// Ends a subscription; nothing more comes for it.
    func unsubscribe(_ id: Int) throws(WireError) -> ConfigUnsubscribe.Result {
        guard let subscription = subscriptions[id] else {
            throw WireError(.notFound, "this connection has no subscription \(id)")
        }
        remove(subscription)
        return ConfigUnsubscribe.Result(subscription: id)
    }

    /// Ends a subscription from the agent's side.
    func end(_ subscription: Subscription, _ reason: ConfigEvent.Reason) {
        guard subscription.isAnnounced else {
            subscription.pendingEnd = reason
            return
        }
        let body = subscription.topic.encode(.end(reason))
        write(subscription, body, skipped: 0)
        remove(subscription)
        closeIfDone()
    }

    func endSubscriptions(reason: ConfigEvent.Reason?) {
        for subscription in subscriptions.values.sorted(by: { $0.id < $1.id }) {
            if let reason { end(subscription, reason) } else { remove(subscription) }
        }
    }

    private func remove(_ subscription: Subscription) {
        guard subscriptions.removeValue(forKey: subscription.id) != nil else { return }
        behind.removeAll { $0 === subscription }
        subscription.connection = nil
        loop.traffic.subscriptionsOpen -= 1
        endSubscription(holding: subscription.heldBytes)
        loop.hub.remove(subscription)
    }

    // MARK: Events

    private func needsEvent(_ subscription: Subscription) -> Bool {
        let topic = subscription.topic
        guard topic.feed.snapshot.revision > 0 else { return false }
        return subscription.pendingReason != nil || topic.lastChanged > subscription.delivered
    }

    /// Tells a subscription of the current snapshot, at once or as soon as its client has taken what it was sent
    /// before. What changes in between is told in one event, with the newest snapshot.
    /// - Parameter previous: the last revision that every subscription of the loop was offered.
    func offer(_ subscription: Subscription, after previous: Int) {
        guard subscription.isAnnounced else { return }
        if isOutputPending {
            if subscription.firstMissed == nil { subscription.firstMissed = previous + 1 }
            if !subscription.isBehind { behind.append(subscription) }
            subscription.isBehind = true
            return
        }
        let current = subscription.topic.feed.snapshot.revision
        send(subscription, skipped: max(0, current - (subscription.firstMissed ?? previous + 1)))
    }

    /// Sends what subscriptions missed while output waited.
    func catchUp() {
        let waiting = behind
        behind = []
        // A write may find that the client is gone; then they have no connection any more.
        for subscription in waiting where subscription.connection != nil {
            if isOutputPending {
                behind.append(subscription)
                continue
            }
            subscription.isBehind = false
            if needsEvent(subscription) {
                offer(subscription, after: subscription.topic.feed.snapshot.revision)
            } else {
                subscription.firstMissed = nil
            }
        }
    }

    private func send(_ subscription: Subscription, skipped: Int) {
        let body = subscription.topic.body(for: subscription)
        subscription.firstMissed = nil
        subscription.pendingReason = nil
        subscription.delivered = subscription.topic.feed.snapshot.revision
        loop.traffic.eventsSent += 1
        loop.traffic.eventsSkipped += skipped
        write(subscription, body, skipped: skipped)
    }

    private func write(_ subscription: Subscription, _ body: ByteBuffer, skipped: Int) {
        subscription.sequence += 1
        let isSmall = body.readableBytes <= Self.smallBody
        body.withUnsafeReadableBytes { bytes in
            ConfigEvent.append(
                subscription: subscription.id, sequence: subscription.sequence, skipped: skipped,
                body: isSmall ? bytes : UnsafeRawBufferPointer(start: nil, count: 0), to: &loop.output)
        }
        if isSmall {
            flush()
        } else {
            flush(then: body)
        }
    }
}
