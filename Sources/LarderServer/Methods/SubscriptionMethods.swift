import LarderEncoding
import LarderPlatform
import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol

extension ConfigSubscribe: Method {
    static var needsReply: Bool { true }

    /// Opens a subscription. Its first event, if there is one, follows the reply.
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, connection, loop) = (call.parameters, call.connection, call.loop)
        if connection.phase == .draining {
            throw WireError(.shuttingDown, "the agent is stopping; subscribe again after it has restarted")
        }
        let namespace = try call.namespace(parameters.namespace)
        let publication = namespace.publication
        let open = connection.subscriptions.count
        let chargedBytes = try connection.counted { usage throws(UsageRefusal) in
            try usage.admitSubscription(
                retaining: parameters.path.segments.reduce(0) { $0 + $1.utf8.count }, open: open)
        }
        // The output of this connection is flushed first, because getting the topic may write events for other
        // connections of the loop through the same output buffer.
        connection.output.flush()
        let topic = call.hub.topic(parameters.path, of: publication)
        // The flush, or an event for this connection, may find that the client has disconnected, and close the
        // connection.
        if connection.phase == .closed {
            topic.channel.removeIfUnused(topic)
            connection.usage.removeSubscription(chargedBytes: chargedBytes)
            throw .disconnected
        }
        let subscription = Subscription(
            id: connection.subscriptions.nextID(), connection: connection, topic: topic, mode: parameters.mode,
            since: parameters.since, epoch: parameters.epoch, chargedBytes: chargedBytes)
        connection.subscriptions.add(subscription)
        topic.add(subscription)
        loop.traffic.subscriptionsOpen += 1
        let result = Result(
            subscription: subscription.id, revision: topic.channel.revision, epoch: publication.epoch,
            state: ConfigState(publication.current.freshness))
        return .now(result, afterReply: { subscription.replyWritten(at: result.revision) })
    }
}

extension ConfigUnsubscribe: Method {
    /// Ends a subscription. No further events are sent for it.
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let id = call.parameters.subscription
        guard let subscription = call.connection.subscriptions[id] else {
            throw WireError(.notFound, "this connection has no subscription \(id)")
        }
        subscription.remove()
        return .now(Result(subscription: id))
    }
}

extension ConfigAcknowledge: Method {
    /// Records whether the client has applied or rejected a snapshot.
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let parameters = call.parameters
        let namespace = try call.namespace(parameters.namespace)
        let publication = namespace.publication
        if let epoch = parameters.epoch, epoch != publication.epoch {
            throw WireError(
                .invalidParams,
                "\"epoch\" is \"\(epoch.excerpt)\", but the current epoch is \"\(publication.epoch)\"; get the current "
                    + "snapshot")
        }
        let newest = publication.current.snapshot.revision
        guard parameters.revision <= newest else {
            throw WireError(
                .invalidParams, "\"revision\" is \(parameters.revision), but the newest snapshot has revision \(newest)"
            )
        }
        call.loop.registry.acknowledgements.note(
            AgentClients.Acknowledgement(
                namespace: parameters.namespace, revision: parameters.revision, accepted: parameters.accepted,
                reason: parameters.reason, at: Timestamp(milliseconds: WallClock.system.now)),
            by: call.connection.id, call.peer)
        call.connection.acknowledged()
        return .now(Result(revision: parameters.revision))
    }
}
