import LarderConfigModel
import LarderEventLoop
import LarderJSON
import LarderConfig
import LarderProtocol
import NIOCore

/// Carries the snapshots of one namespace to the subscriptions and waits of one event loop.
final class SnapshotChannel {
    let publication: ConfigPublication
    private(set) var snapshot: ConfigSnapshot
    var observer: ConfigPublication.Observer?
    private var topics: [JSONPath: Topic] = [:]
    private var waits: [ObjectIdentifier: SnapshotWait] = [:]
    /// The delivery of ``snapshot``; nil once all subscriptions and waits have it.
    private var broadcast: Broadcast?
    /// Whether something newer, or the end, came during the broadcast.
    private var hasNews = false
    /// Whether the rest of the broadcast is deferred.
    private var isDeferred = false

    init(publication: ConfigPublication) {
        self.publication = publication
        snapshot = publication.current.snapshot
    }

    var isEmpty: Bool { topics.isEmpty && waits.isEmpty }

    /// Whether delivering a snapshot takes microseconds: it is small, and few subscriptions and waits get it.
    func isQuick(to snapshot: ConfigSnapshot) -> Bool {
        snapshot.bytes <= Self.smallBytes && topics.count + waits.count <= Self.maxQuick
            && topics.values.reduce(0) { $0 + $1.subscriptions.count } <= Self.maxQuick
    }

    private static let maxQuick = 4
    private static let smallBytes = 16 * 1024

    func topic(_ path: JSONPath) -> Topic {
        if let topic = topics[path] { return topic }
        let topic = Topic(path, channel: self)
        topics[path] = topic
        return topic
    }

    func remove(_ topic: Topic) { topics[topic.path] = nil }

    func add(_ wait: SnapshotWait) { waits[ObjectIdentifier(wait)] = wait }

    func remove(_ wait: SnapshotWait) { waits[ObjectIdentifier(wait)] = nil }

    // MARK: Delivery

    /// The number of steps with a small snapshot before the clock is read.
    private static let stepsPerCheck = 16

    /// Advances to the newest snapshot and delivers it to all subscriptions whose value changed, without a time limit.
    func advance() {
        if begin() { deliver(in: nil) }
    }

    /// Advances to the newest snapshot and delivers it in time slices: tens of thousands of subscriptions may get it, and other
    /// clients are served between the slices.
    func advanceInSlices(on loop: EpollLoop) {
        if broadcast != nil {
            hasNews = true
            return
        }
        if begin() { continueBroadcast(on: loop) }
    }

    private func continueBroadcast(on loop: EpollLoop) {
        var isDone = deliver(in: TimeSlice())
        if isDone, hasNews {
            hasNews = false
            isDone = !begin()
        }
        if isDone || isDeferred { return }
        isDeferred = true
        loop.deferWork {
            self.isDeferred = false
            self.continueBroadcast(on: loop)
        }
    }

    /// Completes the broadcast under way and begins that of the newest snapshot, if there is a newer one.
    /// - Returns: false if there is nothing to deliver.
    private func begin() -> Bool {
        let current = publication.current
        if current.snapshot.revision > snapshot.revision {
            deliver(in: nil)
            broadcast = Broadcast(
                from: snapshot, to: current.snapshot, Array(topics.values), Array(waits.values))
            snapshot = current.snapshot
        }
        if current.hasEnded {
            deliver(in: nil)
            end()
        }
        return broadcast != nil
    }

    private func end() {
        let subscriptions = topics.values.flatMap(\.subscriptions)
        for subscription in subscriptions { subscription.end(.namespaceRemoved) }
        for wait in waits.values { wait.giveUp(.namespaceRemoved) }
    }

    /// Delivers the snapshot.
    /// - Returns: false if the time slice was over before all had it.
    @discardableResult
    private func deliver(in slice: TimeSlice?) -> Bool {
        let previous = broadcast?.previous.revision ?? 0
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
