import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore

/// A client's subscription to one path of one namespace.
final class Subscription: ConnectionSubscription {
    let id: Int
    let topic: Topic
    let mode: ConfigSubscribe.Mode
    /// A strong reference, because a weak one would slow down each use of the connection. The reference cycle ends when
    /// the connection closes, because it then removes its subscriptions.
    private let connection: Connection
    /// The number of bytes of the path that are charged to the user; 0 for a short path.
    private let chargedBytes: Int
    /// The index of this subscription in the topic's array.
    var place = 0
    // A release build does not check for overlapping accesses, which would add 126 instructions to each event. The
    // checks are not needed: the state performs no I/O and makes no calls outside itself.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var state: SubscriptionState

    /// - Parameters:
    ///   - since: the revision that the client has; nil for none
    ///   - epoch: the epoch of that revision; nil for the current one
    init(
        id: Int, connection: Connection, topic: Topic, mode: ConfigSubscribe.Mode, since: Int? = nil,
        epoch: String? = nil, chargedBytes: Int = 0
    ) {
        self.id = id
        self.connection = connection
        self.topic = topic
        self.mode = mode
        self.chargedBytes = chargedBytes
        state = SubscriptionState(
            clientRevision: topic.compare(since, epoch, mode), current: topic.channel.revision,
            lastChanged: topic.lastChanged)
    }

    var namespace: String { topic.channel.publication.namespace }
    var method: String { ConfigSubscribe.name }

    // MARK: Events

    /// Whether an event can be written now.
    private var canWrite: Bool { !connection.output.isPending }

    /// Starts to send events. Called when the reply to the subscription request has been written.
    /// - Parameter revision: the revision in the reply
    func replyWritten(at revision: Int) {
        perform(
            state.replyWritten(
                revision: revision, current: topic.channel.revision, lastChanged: topic.lastChanged,
                canWrite: canWrite))
    }

    /// Sends the current snapshot, now or when pending output has drained.
    /// - Parameter previous: the revision of the last snapshot before the current one that was offered to all
    ///   subscriptions of the event loop
    func offer(after previous: Int) {
        perform(state.offer(current: topic.channel.revision, previous: previous, canWrite: canWrite))
    }

    /// Sends the newest snapshot if the subscription missed it while output was pending. Postpones the event if output
    /// is pending again.
    func catchUp() {
        perform(
            state.outputDrained(
                current: topic.channel.revision, lastChanged: topic.lastChanged, canWrite: canWrite))
    }

    private func perform(_ action: SubscriptionState.Action) {
        switch action {
        case .none: break
        case .send(let event): send(event)
        case .postpone: connection.subscriptions.addLagging(self)
        case .sendEnd(let reason, let sequence):
            connection.writeEvent(topic.encode(.end(reason)), of: id, sequence: sequence)
            remove()
            connection.closeIfDone()
        }
    }

    private func send(_ event: SubscriptionState.Event) {
        let body = topic.body(of: event, mode)
        connection.loop.traffic.eventsSent += 1
        connection.loop.traffic.eventsSkipped += event.skipped
        connection.writeEvent(body, of: id, sequence: event.sequence, skipped: event.skipped)
    }

    // MARK: End

    /// Ends the subscription and sends an `end` event to the client.
    func end(_ reason: ConfigEvent.Reason) { perform(state.end(reason)) }

    /// Removes the subscription without an event.
    func remove() {
        guard connection.subscriptions.remove(self) else { return }
        state.close()
        connection.loop.traffic.subscriptionsOpen -= 1
        connection.usage.removeSubscription(chargedBytes: chargedBytes)
        topic.remove(self)
        topic.channel.removeIfUnused(topic)
    }
}
