import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore

/// Delivers new snapshots to the subscriptions and pending `config.wait` requests of one event loop, through one
/// channel per namespace.
final class SubscriptionHub {
    private let eventLoop: any ServerEventLoop
    private var channels: [ObjectIdentifier: SnapshotChannel] = [:]
    /// The subscriptions to feature flags.
    let flags: FlagHub

    init(eventLoop: any ServerEventLoop) {
        self.eventLoop = eventLoop
        flags = FlagHub(eventLoop: eventLoop)
    }

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
        let channel = SnapshotChannel(publication, on: eventLoop) { [weak self] in self?.remove($0) }
        channels[key] = channel
        channel.start()
        return channel
    }

    private func remove(_ unused: SnapshotChannel) {
        let key = ObjectIdentifier(unused.publication)
        if channels[key] === unused { channels[key] = nil }
    }

    /// Adds a wait, which is checked at each further snapshot.
    func add(_ wait: SnapshotWait) { channel(of: wait.publication).add(wait) }

    /// Removes a wait, and its channel if that has become unused.
    func remove(_ wait: SnapshotWait) { channels[ObjectIdentifier(wait.publication)]?.remove(wait) }
}

/// Delivers the snapshots of one namespace to the subscriptions and pending `config.wait` requests of one event loop.
///
/// A task on the loop consumes the stream of snapshots and awaits nothing else. Work beyond a time slice is deferred.
/// Of the snapshots that arrive before the deferred work is complete, only the newest is delivered.
final class SnapshotChannel {
    /// A snapshot is delivered in place (``isQuick``) only if the channel has at most this many topics and waits
    /// together, and at most this many subscriptions.
    private static let maxInPlace = 4
    private static let smallBytes = 16 * 1024
    /// For small snapshots, the number of steps between two checks of the time slice.
    private static let stepsPerCheck = 16

    let publication: ConfigPublication
    private(set) var snapshot: ConfigSnapshot { didSet { revision = snapshot.revision } }
    /// The revision of ``snapshot``. Each delivery reads it, which must not retain the snapshot.
    private(set) var revision: Int
    private let eventLoop: any ServerEventLoop
    /// Called when the channel has stopped, because no topic and no wait is left.
    private let onUnused: (SnapshotChannel) -> Void
    /// The task that consumes the stream of snapshots. It retains the channel until it is cancelled or the namespace
    /// ends.
    private var consumer: Task<Void, Never>?
    private var topics: [JSONPath: Topic] = [:]
    private var waits: [ObjectIdentifier: SnapshotWait] = [:]
    /// The delivery of ``snapshot``; nil when it is complete. A release build does not check for overlapping accesses,
    /// which would add 63 instructions to each event. The check is not needed: while the state of a broadcast changes,
    /// the broadcast makes no calls to the channel.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var broadcast: Broadcast?
    /// The newest snapshot that arrived during the broadcast.
    private var pending: ConfigSnapshot?
    /// Whether the rest of the broadcast is deferred.
    private var isDeferred = false

    init(
        _ publication: ConfigPublication, on eventLoop: any ServerEventLoop,
        onUnused: @escaping (SnapshotChannel) -> Void = { _ in }
    ) {
        self.publication = publication
        self.eventLoop = eventLoop
        self.onUnused = onUnused
        snapshot = publication.current.snapshot
        revision = snapshot.revision
    }

    func topic(_ path: JSONPath) -> Topic {
        if let topic = topics[path] { return topic }
        let topic = Topic(path, channel: self)
        topics[path] = topic
        return topic
    }

    /// Removes a topic if it has no subscriptions.
    func removeIfUnused(_ topic: Topic) {
        guard topic.subscriptions.isEmpty else { return }
        topics[topic.path] = nil
        stopIfUnused()
    }

    func add(_ wait: SnapshotWait) { waits[ObjectIdentifier(wait)] = wait }

    func remove(_ wait: SnapshotWait) {
        waits[ObjectIdentifier(wait)] = nil
        stopIfUnused()
    }

    private func stopIfUnused() {
        guard topics.isEmpty, waits.isEmpty else { return }
        stop()
        onUnused(self)
    }

    // MARK: The stream

    /// Starts to consume the snapshots.
    func start() {
        let (snapshots, channel) = (publication.snapshots(), NIOLoopBound(self, eventLoop: eventLoop))
        let executor = eventLoop.makeTaskExecutor { channel.value.isQuick }
        consumer = Task(executorPreference: executor) {
            for await snapshot in snapshots { channel.value.advance(to: snapshot) }
            channel.value.streamFinished()
        }
    }

    private func stop() { consumer.take()?.cancel() }

    /// Whether delivering the current snapshot takes only microseconds. It is then delivered in place: within the step
    /// that publishes it, before the change is logged, acknowledged and flushed. Subscribers get it about 10,000
    /// instructions earlier. False after ``stop()``: when `stop` cancels the consumer's task, the consumer would
    /// otherwise run its last step within that call.
    private var isQuick: Bool {
        consumer != nil && topics.count + waits.count <= Self.maxInPlace
            && topics.values.reduce(0) { $0 + $1.subscriptions.count } <= Self.maxInPlace
            && publication.current.snapshot.bytes <= Self.smallBytes
    }

    private func streamFinished() {
        // If the namespace has not ended, the stream finished because the channel was stopped.
        guard publication.current.hasEnded else { return }
        catchUp()
        let subscriptions = topics.values.flatMap(\.subscriptions)
        for subscription in subscriptions { subscription.end(.namespaceRemoved) }
        for wait in waits.values { wait.fail(.namespaceRemoved) }
    }

    // MARK: Delivery

    /// Delivers a snapshot in time slices. There may be tens of thousands of subscriptions, and other clients are
    /// served between the slices.
    func advance(to newest: ConfigSnapshot) {
        if broadcast != nil {
            pending = newest
        } else {
            begin(newest)
            continueBroadcast()
        }
    }

    /// Delivers the newest snapshot without a time limit.
    func catchUp() {
        begin(publication.current.snapshot)
        deliver(in: nil)
    }

    /// Completes the current broadcast and begins one for `newest`. Has no effect unless `newest` is newer than
    /// ``snapshot``.
    private func begin(_ newest: ConfigSnapshot) {
        guard newest.revision > revision else { return }
        deliver(in: nil)
        broadcast = Broadcast(from: snapshot, to: newest, Array(topics.values), Array(waits.values))
        snapshot = newest
    }

    private func continueBroadcast() {
        if broadcast == nil, pending == nil { return }
        var isDone = deliver(in: TimeSlice())
        if isDone, let newest = pending.take() {
            begin(newest)
            isDone = broadcast == nil
        }
        if isDone || isDeferred { return }
        isDeferred = true
        eventLoop.deferWork {
            self.isDeferred = false
            self.continueBroadcast()
        }
    }

    /// Continues the broadcast.
    /// - Returns: false if the time slice ended first
    @discardableResult
    private func deliver(in slice: TimeSlice?) -> Bool {
        guard let previous = broadcast?.previous.revision else { return true }
        let steps = snapshot.bytes <= Self.smallBytes ? Self.stepsPerCheck : 1
        var left = steps
        while let step = broadcast?.next() {
            switch step {
            case .offer(let subscription): subscription.offer(after: previous)
            case .compared: break
            case .check(let wait): wait.evaluate(at: publication.current)
            }
            left -= 1
            guard left == 0, let slice else { continue }
            if slice.isOver { return false }
            left = steps
        }
        broadcast = nil
        return true
    }
}

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
