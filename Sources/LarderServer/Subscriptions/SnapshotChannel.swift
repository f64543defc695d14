import LarderConfigModel
import LarderEventLoop
import LarderJSON
import LarderConfig
import LarderProtocol
import NIOCore

/// One namespace as the subscriptions of one event loop see it.
final class SnapshotChannel {
    let publication: ConfigPublication
    private(set) var snapshot: ConfigSnapshot
    var observer: ConfigPublication.Observer?
    private var topics: [JSONPath: Topic] = [:]
    private var waits: [ObjectIdentifier: SnapshotWait] = [:]
    /// The revision before the current one, as this loop saw them.
    private var previousRevision: Int

    init(publication: ConfigPublication) {
        self.publication = publication
        snapshot = publication.current.snapshot
        previousRevision = snapshot.revision
    }

    var isEmpty: Bool { topics.isEmpty && waits.isEmpty }

    /// Whether delivering a snapshot to all of them takes microseconds.
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

    // MARK: Telling

    /// Who is told of a snapshot, and how far that is.
    private final class Telling {
        let old: ConfigSnapshot
        let topics: [Topic]
        let waits: [SnapshotWait]
        /// Which of them come next.
        var (nextTopic, nextWait) = (0, 0)
        /// The topic whose subscriptions are told, and which of them comes next.
        var topic: Topic?
        var (subscriptions, nextSubscription): ([Subscription], Int) = ([], 0)

        init(from old: ConfigSnapshot, _ topics: [Topic], _ waits: [SnapshotWait]) {
            (self.old, self.topics, self.waits) = (old, topics, waits)
        }
    }

    private var telling: Telling?
    /// Whether something newer has come, or the end, while they were told.
    private var hasNews = false
    /// Whether it goes on by itself.
    private var isDeferred = false
    /// How many are told of something small before somebody looks at the time.
    private static let fewTold = 16

    /// Goes on to the newest snapshot and offers it to all subscriptions whose value changed, here and now.
    func advance() {
        if begin() { _ = tell(in: nil) }
    }

    /// The same, a little each turn of the loop: there may be tens of thousands of them, between which others are served.
    func goOn(on loop: EpollLoop) {
        if telling != nil {
            hasNews = true
            return
        }
        if begin() { goOnTelling(on: loop) }
    }

    private func goOnTelling(on loop: EpollLoop) {
        var isDone = tell(in: TimeSlice())
        if isDone, hasNews {
            hasNews = false
            isDone = !begin()
        }
        if isDone || isDeferred { return }
        isDeferred = true
        loop.deferWork {
            self.isDeferred = false
            self.goOnTelling(on: loop)
        }
    }

    /// Goes on to the newest snapshot, once all were told of the one before.
    /// - Returns: whether somebody is to be told of it.
    private func begin() -> Bool {
        let (old, current) = (snapshot, publication.current)
        if current.snapshot.revision > old.revision {
            _ = tell(in: nil)
            snapshot = current.snapshot
            telling = Telling(from: old, Array(topics.values), Array(waits.values))
        }
        if current.hasEnded {
            _ = tell(in: nil)
            end()
        }
        return telling != nil
    }

    private func end() {
        let subscriptions = topics.values.flatMap(\.subscriptions)
        for subscription in subscriptions { subscription.end(.namespaceRemoved) }
        for wait in waits.values { wait.giveUp(.namespaceRemoved) }
    }

    /// Tells them until it is time for others.
    /// - Returns: whether all know.
    private func tell(in slice: TimeSlice?) -> Bool {
        guard let telling else { return true }
        let few = snapshot.bytes <= Self.smallBytes ? Self.fewTold : 1
        var left = few
        func isTimeForOthers() -> Bool {
            left -= 1
            guard left == 0, let slice else { return false }
            left = few
            return slice.isOver
        }
        repeat {
            let subscriptions = telling.subscriptions
            while telling.nextSubscription < subscriptions.count {
                let subscription = subscriptions[telling.nextSubscription]
                telling.nextSubscription += 1
                // Who took meanwhile what it was sent before has heard of it.
                if subscription.delivered < snapshot.revision {
                    subscription.offer(after: telling.old.revision)
                }
                if isTimeForOthers() { return false }
            }
            if isTimeForOthers() { return false }
        } while tellNextTopic(telling)
        while telling.nextWait < telling.waits.count {
            let wait = telling.waits[telling.nextWait]
            telling.nextWait += 1
            wait.look(at: publication.current)
            if isTimeForOthers() { return false }
        }
        self.telling = nil
        return true
    }

    /// - Returns: false where there is no other topic.
    private func tellNextTopic(_ telling: Telling) -> Bool {
        telling.topic?.forgetBase()
        (telling.topic, telling.subscriptions, telling.nextSubscription) = (nil, [], 0)
        guard telling.nextTopic < telling.topics.count else { return false }
        let topic = telling.topics[telling.nextTopic]
        telling.nextTopic += 1
        if topic.advance(from: telling.old, to: snapshot) {
            telling.topic = topic
            telling.subscriptions = topic.subscriptions
        }
        return true
    }
}
