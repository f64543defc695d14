import LarderPlatform
import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol

/// `config.subscribe`, `config.unsubscribe` and `config.acknowledge`.
struct SubscriptionMethods {
    let connection: Connection

    private var loop: LoopContext { connection.loop }

    /// Opens a subscription. Its first event, if there is one, follows the reply.
    func subscribe(_ parameters: ConfigSubscribe.Parameters) throws(WireError) -> MethodTable.ConnectionReply {
        if connection.phase == .draining {
            throw WireError(.shuttingDown, "the agent is stopping; subscribe again once it is back")
        }
        let publication = try RequestScope(connection).namespace(parameters.namespace).publication
        let heldBytes: Int
        do throws(UsageRefusal) {
            heldBytes = try connection.usage.admitSubscription(
                to: parameters.path, open: connection.subscriptions.count)
        } catch {
            throw loop.count(error, of: connection.principal.credentials)
        }
        // The topic may write news for other connections of this loop, through the same buffer.
        connection.output.flush()
        let topic = loop.hub.topic(parameters.path, of: publication)
        // Any write may find that the client is gone, and closes the connection at once.
        if connection.phase == .closed {
            loop.hub.removeUnused(topic)
            connection.usage.removeSubscription(heldBytes: heldBytes)
            throw .disconnected
        }
        let subscription = Subscription(
            id: connection.subscriptions.nextID(), connection: connection, topic: topic, mode: parameters.mode,
            since: parameters.since, epoch: parameters.epoch, heldBytes: heldBytes)
        connection.subscriptions.add(subscription)
        topic.add(subscription)
        loop.traffic.subscriptionsOpen += 1
        let result = ConfigSubscribe.Result(
            subscription: subscription.id, revision: topic.channel.snapshot.revision, epoch: publication.epoch,
            state: ConfigState(publication.current.freshness))
        return MethodTable.ConnectionReply(result: result) { subscription.replyWritten(at: result.revision) }
    }

    /// Ends a subscription. No further event is sent for it.
    func unsubscribe(_ parameters: ConfigUnsubscribe.Parameters) throws(WireError) -> ConfigUnsubscribe.Result {
        let id = parameters.subscription
        guard let subscription = connection.subscriptions[id] else {
            throw WireError(.notFound, "this connection has no subscription \(id)")
        }
        subscription.remove()
        return ConfigUnsubscribe.Result(subscription: id)
    }

    /// Notes that the client applied or rejected a snapshot.
    func acknowledge(_ parameters: ConfigAcknowledge.Parameters) throws(WireError) -> ConfigAcknowledge.Result {
        let publication = try RequestScope(connection).namespace(parameters.namespace).publication
        if let epoch = parameters.epoch, epoch != publication.epoch {
            throw WireError(
                .invalidParams,
                "\"epoch\" is \(epoch), and revisions now count in \(publication.epoch); take the current snapshot")
        }
        let newest = publication.current.snapshot.revision
        guard parameters.revision <= newest else {
            throw WireError(
                .invalidParams, "\"revision\" is \(parameters.revision), and the newest snapshot is \(newest)")
        }
        loop.registry.acknowledgements.note(
            AcknowledgementBook.Entry(
                revision: parameters.revision, accepted: parameters.accepted, reason: parameters.reason,
                at: Timestamp(milliseconds: WallClock.system.now), peer: connection.principal.credentials),
            by: connection.id, of: parameters.namespace)
        connection.metrics.hasAcknowledged = true
        return ConfigAcknowledge.Result(revision: parameters.revision)
    }
}
