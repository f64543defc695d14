import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore

/// Carries the snapshots of one namespace to the subscriptions and waits of one event loop.
///
/// A task on the loop consumes the stream of snapshots. It never awaits anything else: what does not fit into a time slice is
/// deferred, and snapshots that come meanwhile are joined into the newest one.
final class SnapshotChannel {
    /// The maximum number of topics and waits, and of subscriptions, that get a small snapshot in place.
    private static let maxInPlace = 4
    private static let smallBytes = 16 * 1024
    /// The number of steps with a small snapshot before the clock is read.
    private static let stepsPerCheck = 16

    let publication: ConfigPublication
    private(set) var snapshot: ConfigSnapshot
    private let eventLoop: any ServerEventLoop
    /// Consumes the stream of snapshots. It holds the channel until it is cancelled or the namespace has ended.
    private var consumer: Task<Void, Never>?
    private var topics: [JSONPath: Topic] = [:]
    private var waits: [ObjectIdentifier: SnapshotWait] = [:]
    /// The delivery of ``snapshot``; nil once all subscriptions and waits have it. A release build does not check accesses
    /// at run time, which would add 63 instructions to each event. A broadcast does not call the channel while it changes.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var broadcast: Broadcast?
    /// The newest snapshot that came during the broadcast.
    private var pending: ConfigSnapshot?
    /// Whether the rest of the broadcast is deferred.
    private var isDeferred = false

    init(_ publication: ConfigPublication, on eventLoop: any ServerEventLoop) {
        self.publication = publication
        self.eventLoop = eventLoop
        snapshot = publication.current.snapshot
    }

    var isEmpty: Bool { topics.isEmpty && waits.isEmpty }

    func topic(_ path: JSONPath) -> Topic {
        if let topic = topics[path] { return topic }
        let topic = Topic(path, channel: self)
        topics[path] = topic
        return topic
    }

    func remove(_ topic: Topic) { topics[topic.path] = nil }

    func add(_ wait: SnapshotWait) { waits[ObjectIdentifier(wait)] = wait }

    func remove(_ wait: SnapshotWait) { waits[ObjectIdentifier(wait)] = nil }

    // MARK: The stream

    /// Begins to consume the snapshots.
    func start() {
        let (snapshots, channel) = (publication.snapshots(), NIOLoopBound(self, eventLoop: eventLoop))
        let executor = eventLoop.makeTaskExecutor { channel.value.isQuick }
        consumer = Task(executorPreference: executor) {
            for await snapshot in snapshots { channel.value.advance(to: snapshot) }
            channel.value.streamFinished()
        }
    }

    func stop() { consumer.take()?.cancel() }

    /// Whether the delivery of the current snapshot takes microseconds. Few subscriptions get it in place, before the change is
    /// logged, acknowledged and flushed: about 10,000 instructions earlier. The last step of a consumer that is stopped never
    /// runs in place, because the cancellation of its task is still under way then.
    private var isQuick: Bool {
        consumer != nil && topics.count + waits.count <= Self.maxInPlace
            && topics.values.reduce(0) { $0 + $1.subscriptions.count } <= Self.maxInPlace
            && publication.current.snapshot.bytes <= Self.smallBytes
    }

    private func streamFinished() {
        // Otherwise the channel was stopped.
        guard publication.current.hasEnded else { return }
        catchUp()
        let subscriptions = topics.values.flatMap(\.subscriptions)
        for subscription in subscriptions { subscription.end(.namespaceRemoved) }
        for wait in waits.values { wait.giveUp(.namespaceRemoved) }
    }

    // MARK: Delivery

    /// Delivers a snapshot in time slices: tens of thousands of subscriptions may get it, and other clients are served between
    /// the slices.
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

    /// Completes the broadcast under way and begins the next, unless the snapshot is known.
    private func begin(_ newest: ConfigSnapshot) {
        guard newest.revision > snapshot.revision else { return }
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
    /// - Returns: false if the time slice was over before its end.
    @discardableResult
    private func deliver(in slice: TimeSlice?) -> Bool {
        guard let previous = broadcast?.previous.revision else { return true }
        let steps = snapshot.bytes <= Self.smallBytes ? Self.stepsPerCheck : 1
        var left = steps
        while let step = broadcast?.next() {
            switch step {
            case .offer(let subscription): subscription.offer(after: previous)
            case .compared: break
            case .check(let wait): wait.look(at: publication.current)
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
