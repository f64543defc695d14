import LarderProtocol

/// A client's standing request for one path of one namespace.
final class Subscription {
    let id: Int
    /// Nil once it is over. A strong reference, because a weak one would make every use of the connection slower.
    var connection: Connection?
    let topic: Topic
    let mode: ConfigSubscribe.Mode
    /// Bytes of its path, where that is long.
    let heldBytes: Int
    /// Where it stands among the topic's subscriptions.
    var place = 0
    /// The revision that the client holds; 0 for none.
    var delivered: Int
    /// Whether the reply that tells of it was written; no event comes before. In a batch that may take a while.
    var isAnnounced = false
    /// Why it ended before that.
    var pendingEnd: ConfigEvent.Reason?
    /// Events sent.
    var sequence = 0
    /// The first revision that it was to be offered and was not, or not yet.
    var firstMissed: Int?
    /// Whether it is among those that are offered the newest snapshot once output moves again.
    var isBehind = false
    /// Why the next event carries the whole value, where that is not just a change.
    var pendingReason: ConfigEvent.Reason?

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
}
