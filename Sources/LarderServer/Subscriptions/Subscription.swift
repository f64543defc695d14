import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore

/// A client's standing request for one path of one namespace.
final class Subscription {
    /// Bodies up to this size are copied behind their head; for larger ones the system call takes two pieces.
    private static let smallBodyBytes = 4096

    let id: Int
    /// Nil after the end. A strong reference, because a weak one would make every use of the connection slower.
    private(set) var connection: Connection?
    let topic: Topic
    let mode: ConfigSubscribe.Mode
    /// Bytes of its path that count towards the user's limit, 0 for a short path.
    private let heldBytes: Int
    /// Its index among the topic's subscriptions.
    var place = 0
    /// The revision that the client holds; 0 for none.
    private(set) var delivered: Int
    /// Whether its reply was written. No event precedes the reply, which may wait for the rest of a batch.
    private var isAnnounced = false
    /// Why it ended before that.
    private var pendingEnd: ConfigEvent.Reason?
    /// Events sent.
    private var sequence = 0
    /// The first revision that it was not offered, or not yet.
    private var firstMissed: Int?
    /// Whether it is among the connection's lagging subscriptions.
    private var isLagging = false
    /// Why the next event carries the whole value; nil if it is just a change.
    private(set) var pendingReason: ConfigEvent.Reason?

    init(
        id: Int, connection: Connection, topic: Topic, mode: ConfigSubscribe.Mode, delivered: Int, heldBytes: Int = 0
    ) {
        self.id = id
        self.connection = connection
        self.topic = topic
        self.mode = mode
        self.delivered = delivered
        self.heldBytes = heldBytes
    }

    // MARK: Beginning

    /// Compares the snapshot that the client holds with the current one.
    /// - Parameters:
    ///   - since: the revision that the client holds; nil for none.
    ///   - epoch: the epoch of that revision; nil for the current one.
    func prepareFirstEvent(since: Int?, epoch: String?) {
        let current = topic.channel.snapshot.revision
        if current == 0 {
            delivered = 0
            pendingReason = .initial
        } else if let since {
            if epoch.map({ $0 != topic.channel.publication.epoch }) ?? false || since > current {
                pendingReason = .restart
            } else if since < current, !topic.isUnchanged(since: since) {
                delivered = since
                if mode != .patch || topic.channel.publication.recent(revision: since) == nil { pendingReason = .gap }
            }
        } else {
            pendingReason = .initial
        }
        if needsEvent { firstMissed = current }
    }

    /// Begins to send events, now that the reply is written.
    /// - Parameter revision: the revision that the reply names.
    func replyWritten(at revision: Int) {
        if connection == nil { return }
        isAnnounced = true
        if let pendingEnd { return end(pendingEnd) }
        if needsEvent { offer(after: revision) }
    }

    // MARK: Events

    private var needsEvent: Bool {
        guard topic.channel.snapshot.revision > 0 else { return false }
        return pendingReason != nil || topic.lastChanged > delivered
    }

    /// Sends the current snapshot, at once or as soon as the client has taken the pending output. The changes in between
    /// make one event, with the newest snapshot.
    /// - Parameter previous: the last revision that every subscription of the loop was offered.
    func offer(after previous: Int) {
        guard isAnnounced, let connection else { return }
        if connection.outbound.isPending {
            if firstMissed == nil { firstMissed = previous + 1 }
            if !isLagging { connection.subscriptions.addLagging(self) }
            isLagging = true
            return
        }
        send(to: connection, skipped: max(0, topic.channel.snapshot.revision - (firstMissed ?? previous + 1)))
    }

    /// Sends the snapshot that was missed while output was pending, unless output is pending again.
    func catchUp() {
        // A write to an earlier subscription may have closed the connection.
        guard let connection else { return }
        if connection.outbound.isPending { return connection.subscriptions.addLagging(self) }
        isLagging = false
        if needsEvent { offer(after: topic.channel.snapshot.revision) } else { firstMissed = nil }
    }

    private func send(to connection: Connection, skipped: Int) {
        let body = topic.body(for: self)
        firstMissed = nil
        pendingReason = nil
        delivered = topic.channel.snapshot.revision
        connection.loop.traffic.eventsSent += 1
        connection.loop.traffic.eventsSkipped += skipped
        write(body, skipped: skipped, to: connection)
    }

    private func write(_ body: ByteBuffer, skipped: Int, to connection: Connection) {
        sequence += 1
        let isSmall = body.readableBytes <= Self.smallBodyBytes
        body.withUnsafeReadableBytes { bytes in
            ConfigEvent.append(
                subscription: id, sequence: sequence, skipped: skipped,
                body: isSmall ? bytes : UnsafeRawBufferPointer(start: nil, count: 0), to: &connection.loop.output.writer
            )
        }
        if isSmall {
            connection.output.flush()
        } else {
            connection.output.flush(then: body)
        }
    }

    // MARK: End

    /// Ends the subscription from the agent's side, with an event.
    func end(_ reason: ConfigEvent.Reason) {
        guard let connection else { return }
        guard isAnnounced else {
            pendingEnd = reason
            return
        }
        write(topic.encode(.end(reason)), skipped: 0, to: connection)
        remove()
        connection.closeIfDone()
    }

    /// Ends the subscription without an event.
    func remove() {
        guard let connection, connection.subscriptions.remove(self) else { return }
        self.connection = nil
        connection.loop.traffic.subscriptionsOpen -= 1
        connection.usage.removeSubscription(heldBytes: heldBytes)
        connection.loop.hub.remove(self)
    }
}
