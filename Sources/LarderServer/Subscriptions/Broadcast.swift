import LarderConfigModel

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
