import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Following keys of etcd")
struct EtcdFollowerTests {
    private typealias Step = EtcdFollower.Step.Task

    private var generator = SeededGenerator(seed: 1)
    private var follower = EtcdFollower(maximumBytes: 1000, plan: Self.plan)
    private static let plan = ReconnectPlan(window: .seconds(30), firstFetchWindow: .seconds(2), seed: "a")

    private static func keyspace(
        _ revision: Int, _ pairs: [(String, Int)] = [("a", 1)], cluster: String = "1"
    ) -> EtcdKeyspace {
        var keyspace = EtcdKeyspace(EtcdHeader(cluster: cluster, revision: revision))
        keyspace.add(pairs.map { EtcdPair(key: Array($0.0.utf8), value: Array("\($0.1)".utf8), modified: $0.1) })
        return keyspace
    }

    private static func message(_ revision: Int, cluster: String = "1") -> EtcdWatchMessage {
        EtcdWatchMessage(header: EtcdHeader(cluster: cluster, revision: revision))
    }

    private static func events(_ revision: Int, _ puts: [(String, Int)], deletions: [(String, Int)] = [])
        -> EtcdWatchMessage
    {
        var message = message(revision)
        message.events =
            puts.map {
                EtcdEvent(pair: EtcdPair(key: Array($0.0.utf8), value: [0x30], modified: $0.1), isDeletion: false)
            }
            + deletions.map {
                EtcdEvent(pair: EtcdPair(key: Array($0.0.utf8), value: [], modified: $0.1), isDeletion: true)
            }
        return message
    }

    private mutating func read(_ keyspace: EtcdKeyspace) -> EtcdFollower.Effects {
        follower.readCompleted(keyspace, began: follower.readBegins())
    }

    private mutating func begin() -> EtcdFollower.Effects { follower.begin(using: &generator) }

    private mutating func failReading(_ error: EtcdError) -> EtcdFollower.Effects {
        follower.readFailed(error, number: follower.step.number, using: &generator)
    }

    private mutating func hear(_ message: EtcdWatchMessage) throws(EtcdError) -> EtcdFollower.Effects {
        try follower.watchReceived(message, number: follower.step.number)
    }

    private mutating func endWatch(_ error: EtcdError?) -> EtcdFollower.Effects {
        follower.watchEnded(error, number: follower.step.number, using: &generator)
    }

    /// Is at work: has read, and the watch has begun.
    private mutating func watching(_ keyspace: EtcdKeyspace = keyspace(5)) throws {
        _ = begin()
        _ = read(keyspace)
        var created = Self.message(keyspace.revision, cluster: keyspace.cluster)
        created.isCreated = true
        _ = try hear(created)
    }

    private func keys() -> [String] {
        (follower.known?.values.keys.map { String(decoding: $0, as: UTF8.self) } ?? []).sorted()
    }

    private static let broken = EtcdError(.unavailable, "broken")

    @Test("somebody else's reading is as good as our own: the watch begins behind it")
    mutating func start() throws {
        #expect(begin() == .newStep)
        guard case .pause = follower.step.task else { return #expect(Bool(false), "\(follower.step)") }
        #expect(read(Self.keyspace(5)) == [.signal, .newStep])
        #expect(follower.step.task == .watch(after: 5))
    }

    @Test("a reading that fails is followed by another, at growing distance, until one comes")
    mutating func downAtStart() {
        _ = begin()
        for number in 0..<5 {
            guard case .pause(let time) = follower.step.task else { return #expect(Bool(false), "\(follower.step)") }
            #expect(time >= .milliseconds(500))
            #expect(follower.pauseEnded(follower.step.number) == .newStep)
            #expect(follower.step.task == .read)
            // It is signalled once.
            #expect(failReading(Self.broken) == (number == 0 ? [.signal, .newStep] : .newStep))
            #expect(follower.failure == Self.broken)
        }
        #expect(follower.pauseEnded(follower.step.number) == .newStep)
        #expect(failReading(EtcdError(.unavailable, "broken otherwise")) == [.signal, .newStep])
        // Somebody's refresh goes well meanwhile.
        #expect(read(Self.keyspace(5)) == [.signal, .newStep])
        #expect(follower.failure == nil)
        #expect(follower.step.task == .watch(after: 5))
    }

    @Test("a watch brings each revision's changes once, puts and deletions")
    mutating func events() throws {
        try watching()
        #expect(try hear(Self.events(6, [("b", 6)])) == .signal)
        #expect(keys() == ["a", "b"])
        #expect(try hear(Self.events(8, [("c", 7)], deletions: [("a", 8)])) == .signal)
        #expect(keys() == ["b", "c"])
        #expect(follower.known?.revision == 8)
        #expect(follower.known?.changedAt == 8)
        // What was known already does not come back.
        #expect(try hear(Self.events(8, [("a", 5)])) == [])
        #expect(keys() == ["b", "c"])
    }

    @Test("the events of a message are known up to the last of them, not up to the revision of its member")
    mutating func catchingUp() throws {
        try watching()
        #expect(try hear(Self.events(100, [("b", 6)])) == .signal)
        #expect(follower.known?.revision == 6)
        #expect(try hear(Self.events(100, [("c", 7)])) == .signal)
        #expect(keys() == ["a", "b", "c"])
    }

    @Test("fragments are taken together with the last of them")
    mutating func fragments() throws {
        try watching()
        for key in ["b", "c"] {
            var part = Self.events(6, [(key, 6)])
            part.isFragment = true
            #expect(try hear(part) == [])
            #expect(keys() == ["a"])
        }
        #expect(try hear(Self.events(6, [("d", 6)])) == .signal)
        #expect(keys() == ["a", "b", "c", "d"])
    }

    @Test("a progress notification moves on what is known, the answer to a request for one does not")
    mutating func progress() throws {
        try watching()
        #expect(try hear(Self.message(50)) == [])
        #expect(follower.known?.revision == 50)
        #expect(follower.known?.changedAt == 5)
        var requested = Self.message(60)
        requested.watchID = -1
        #expect(try hear(requested) == [])
        #expect(follower.known?.revision == 50)
    }

    @Test(
        "a watch that ends is followed by a pause, a whole reading and another watch, and the failure is shown meanwhile"
    )
    mutating func lostWatch() throws {
        try watching()
        #expect(endWatch(Self.broken) == [.signal, .newStep])
        #expect(follower.failure == Self.broken)
        guard case .pause = follower.step.task else { return #expect(Bool(false), "\(follower.step)") }
        #expect(follower.pauseEnded(follower.step.number) == .newStep)
        #expect(follower.step.task == .read)
        // Nothing is new, but the source works again.
        #expect(read(Self.keyspace(9)) == [.signal, .newStep])
        #expect(follower.failure == nil)
        #expect(follower.known?.changedAt == 5)
        #expect(follower.step.task == .watch(after: 9))
    }

    @Test("a watch that began and ended is replaced after the host's splay, however short it was and why it ended")
    mutating func splay() throws {
        for error in [Self.broken, nil, EtcdError(.compacted, "compacted")] {
            for _ in 0..<5 {
                try watching()
                _ = endWatch(error)
                #expect(follower.step.task == .pause(Self.plan.splay))
            }
        }
    }

    @Test("waits grow while watches end before they begin, and start anew once one has begun")
    mutating func backoff() throws {
        var (plan, chance) = (Self.plan, SeededGenerator(seed: 2))
        (follower, generator) = (EtcdFollower(maximumBytes: 1000, plan: plan), chance)
        for _ in 0..<12 {
            _ = read(Self.keyspace(5))
            _ = endWatch(Self.broken)
            #expect(follower.step.task == .pause(plan.delay(after: .failed, using: &chance)))
        }
        try watching()
        _ = endWatch(Self.broken)
        #expect(follower.step.task == .pause(Self.plan.splay))
        _ = follower.pauseEnded(follower.step.number)
        _ = failReading(Self.broken)
        guard case .pause(let time) = follower.step.task else { return #expect(Bool(false)) }
        #expect(time <= .seconds(30))
    }

    @Test("a watch that its endpoint ends in order is no failure")
    mutating func cleanEnd() throws {
        try watching()
        #expect(endWatch(nil) == .newStep)
        #expect(follower.failure == nil)
    }

    @Test("a compacted watch is followed by a reading and is no failure")
    mutating func compacted() throws {
        try watching()
        var end = Self.message(0)
        end.cancelReason = ""
        end.compactRevision = 7
        let error = #expect(throws: EtcdError.self) { try follower.watchReceived(end, number: follower.step.number) }
        #expect(error?.kind == .compacted)
        #expect(endWatch(error) == .newStep)
        #expect(follower.failure == nil)
        _ = follower.pauseEnded(follower.step.number)
        #expect(read(Self.keyspace(9, [("x", 9)])) == [.signal, .newStep])
        #expect(keys() == ["x"])
    }

    @Test("a watch that is cancelled, answered by another cluster or from an older revision is given up")
    mutating func useless() throws {
        var cancelled = Self.message(5)
        cancelled.isCreated = true
        cancelled.cancelReason = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
        var behind = Self.message(4)
        behind.isCreated = true
        for (message, kind) in [
            (cancelled, EtcdError.Kind.refused), (Self.message(9, cluster: "2"), .compacted), (behind, .compacted),
        ] {
            _ = begin()
            _ = read(Self.keyspace(5))
            let error = #expect(throws: EtcdError.self) {
                try follower.watchReceived(message, number: follower.step.number)
            }
            #expect(error?.kind == kind)
        }
    }

    @Test("what a step says that was replaced counts no more")
    mutating func stale() throws {
        try watching()
        let old = follower.step.number
        _ = endWatch(nil)
        #expect(try follower.watchReceived(Self.events(6, [("b", 6)]), number: old) == [])
        #expect(keys() == ["a"])
        #expect(follower.watchEnded(Self.broken, number: old, using: &generator) == [])
        #expect(follower.readFailed(Self.broken, number: old, using: &generator) == [])
        #expect(follower.pauseEnded(old) == [])
        #expect(follower.failure == nil)
    }

    @Test("when the watch told more while somebody's reading was on its way, the watch wins")
    mutating func overtaken() throws {
        try watching()
        let start = follower.readBegins()
        _ = try hear(Self.events(7, [("b", 7)]))
        #expect(follower.readCompleted(Self.keyspace(6), began: start) == [])
        #expect(keys() == ["a", "b"])
        #expect(follower.known?.revision == 7)
    }

    @Test("a reading that shows more than the watch told puts the watch under suspicion until it speaks")
    mutating func suspicion() throws {
        try watching()
        #expect(read(Self.keyspace(9, [("a", 1), ("b", 8)])) == [.signal, .suspicion])
        #expect(follower.isSuspect)
        #expect(keys() == ["a", "b"])
        #expect(try hear(Self.events(8, [("b", 8)])) == [])
        #expect(!follower.isSuspect)
        // A reading that shows nothing new says nothing about the watch.
        #expect(read(Self.keyspace(12, [("a", 1), ("b", 8)])) == [])
        #expect(!follower.isSuspect)
        #expect(follower.known?.changedAt == 9)
    }

    @Test(
        "a restored backup is believed: a smaller revision, or another cluster, replaces what was known and the watch")
    mutating func restored() throws {
        try watching(Self.keyspace(50))
        #expect(read(Self.keyspace(20, [("old", 3)])) == [.signal, .newStep])
        #expect(keys() == ["old"])
        #expect(follower.known?.changedAt == 20)
        #expect(follower.step.task == .watch(after: 20))
        #expect(read(Self.keyspace(7, [("new", 3)], cluster: "2")) == [.signal, .newStep])
        #expect(keys() == ["new"])
        #expect(follower.known?.cluster == "2")
        #expect(follower.step.task == .watch(after: 7))
    }

    @Test("keys that grow beyond what may be held end the watch with an error")
    mutating func limit() throws {
        try watching()
        var message = Self.message(6)
        let value = [UInt8](repeating: 0, count: 2000)
        message.events = [EtcdEvent(pair: EtcdPair(key: [0x62], value: value, modified: 6), isDeletion: false)]
        let error = #expect(throws: EtcdError.self) {
            try follower.watchReceived(message, number: follower.step.number)
        }
        #expect(error?.kind == .rejected)
        #expect(keys() == ["a"])
    }

    @Test("any order of readings, events and losses ends with exactly the keys of the cluster", arguments: 0..<200)
    mutating func anyOrder(seed: UInt64) throws {
        var chance = SeededGenerator(seed: seed)
        var model = ModelCluster()
        _ = begin()
        var lastChange = 0
        for _ in 0..<200 {
            switch Int.random(in: 0..<10, using: &chance) {
            case 0..<4: model.change(using: &chance)
            case 4..<7:
                // The watch delivers some of what it has not told yet.
                guard case .watch(let after) = follower.step.task else { break }
                let messages = model.messages(after: max(after, model.told), using: &chance)
                for message in messages { _ = try hear(message) }
            case 7:
                let start = follower.readBegins()
                let reading = model.keyspace
                if Bool.random(using: &chance) { model.change(using: &chance) }
                if case .watch(let after) = follower.step.task, Bool.random(using: &chance) {
                    for message in model.messages(after: max(after, model.told), using: &chance) {
                        _ = try hear(message)
                    }
                }
                _ = follower.readCompleted(reading, began: start)
            case 8:
                guard case .watch = follower.step.task else { break }
                _ = endWatch(Bool.random(using: &chance) ? Self.broken : nil)
            default:
                if case .pause = follower.step.task { _ = follower.pauseEnded(follower.step.number) }
            }
            if case .watch(let after) = follower.step.task, after > model.told { model.told = after }
            // What is known only ever goes on while the cluster does.
            #expect(follower.known?.changedAt ?? 0 >= lastChange)
            lastChange = follower.known?.changedAt ?? 0
        }
        _ = begin()
        _ = read(model.keyspace)
        #expect(follower.known?.values == model.keyspace.values)
        #expect(follower.known?.revision == model.keyspace.revision)
    }
}

/// A cluster that remembers what happened in it.
private struct ModelCluster {
    private var revision = 1
    private var history: [[EtcdEvent]] = []
    private var pairs: [[UInt8]: EtcdPair] = [:]
    /// How far the present watch has told.
    var told = 0

    var keyspace: EtcdKeyspace {
        var keyspace = EtcdKeyspace(EtcdHeader(cluster: "1", revision: revision))
        keyspace.add(Array(pairs.values))
        return keyspace
    }

    mutating func change(using chance: inout SeededGenerator) {
        revision += 1
        var events: [EtcdEvent] = []
        for key in (0..<6 as Range<UInt8>).shuffled(using: &chance).prefix(Int.random(in: 1...3, using: &chance)) {
            let isDeletion = Bool.random(using: &chance)
            if isDeletion && pairs[[key]] == nil { continue }
            let value = isDeletion ? [] : [UInt8.random(in: 0...255, using: &chance)]
            let pair = EtcdPair(key: [key], value: value, modified: revision)
            pairs[[key]] = isDeletion ? nil : pair
            events.append(EtcdEvent(pair: pair, isDeletion: isDeletion))
        }
        history.append(events)
    }

    /// The next messages of a watch: whole revisions, some of them in fragments, or that nothing happened.
    mutating func messages(after: Int, using chance: inout SeededGenerator) -> [EtcdWatchMessage] {
        let last = Int.random(in: after...max(after, revision), using: &chance)
        var messages: [EtcdWatchMessage] = []
        for number in (after + 1)..<max(after + 1, last + 1) {
            let events = history[number - 2]
            var message = EtcdWatchMessage(header: EtcdHeader(cluster: "1", revision: revision))
            for (index, event) in events.enumerated() where Bool.random(using: &chance) || index == events.count - 1 {
                message.events.append(event)
            }
            // Fragments: each event that was not chosen comes before, alone.
            for event in events where !message.events.contains(event) {
                var part = EtcdWatchMessage(header: message.header)
                part.events = [event]
                part.isFragment = true
                messages.append(part)
            }
            if !message.events.isEmpty { messages.append(message) }
        }
        told = max(told, last)
        if last == revision { messages.append(EtcdWatchMessage(header: EtcdHeader(cluster: "1", revision: revision))) }
        return messages
    }
}
