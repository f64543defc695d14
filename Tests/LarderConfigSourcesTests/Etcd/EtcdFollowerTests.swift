import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Etcd follower")
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

    private mutating func begin() -> EtcdFollower.Effects { follower.begin(after: .zero, using: &generator) }

    private mutating func failRead(_ error: EtcdError) -> EtcdFollower.Effects {
        follower.readFailed(error, number: follower.step.number, using: &generator)
    }

    private mutating func receive(_ message: EtcdWatchMessage) throws(EtcdError) -> EtcdFollower.Effects {
        try follower.watchReceived(message, number: follower.step.number)
    }

    private mutating func endWatch(_ error: EtcdError?) -> EtcdFollower.Effects {
        follower.watchEnded(error, number: follower.step.number, using: &generator)
    }

    /// Lets the follower read these keys and begin a watch after the revision of the read.
    private mutating func startWatching(_ keyspace: EtcdKeyspace = keyspace(5)) throws {
        _ = begin()
        _ = read(keyspace)
        var created = Self.message(keyspace.revision, cluster: keyspace.cluster)
        created.isCreated = true
        _ = try receive(created)
    }

    private func keys() -> [String] {
        (follower.known?.values.keys.map { String(decoding: $0, as: UTF8.self) } ?? []).sorted()
    }

    private static let broken = EtcdError(.unavailable, "broken")

    @Test("a read for a refresh ends the initial pause, and the watch begins after the revision of the read")
    mutating func start() throws {
        #expect(begin() == .newStep)
        guard case .pause = follower.step.task else { return #expect(Bool(false), "\(follower.step)") }
        #expect(read(Self.keyspace(5)) == [.signal, .newStep])
        #expect(follower.step.task == .watch(after: 5))
    }

    @Test("a read for a refresh also ends an initial pause that is longer because the agent was restarted")
    mutating func restart() {
        #expect(follower.begin(after: .seconds(30), using: &generator) == .newStep)
        guard case .pause(let time) = follower.step.task else { return #expect(Bool(false), "\(follower.step)") }
        #expect(time >= .seconds(30))
        #expect(read(Self.keyspace(5)) == [.signal, .newStep])
    }

    @Test("failed reads are retried after a pause, and a failure that repeats is signaled only once")
    mutating func downAtStart() {
        _ = begin()
        for number in 0..<5 {
            guard case .pause(let time) = follower.step.task else { return #expect(Bool(false), "\(follower.step)") }
            #expect(time >= .milliseconds(500))
            #expect(follower.pauseEnded(follower.step.number) == .newStep)
            #expect(follower.step.task == .read)
            #expect(failRead(Self.broken) == (number == 0 ? [.signal, .newStep] : .newStep))
            #expect(follower.failure == Self.broken)
        }
        #expect(follower.pauseEnded(follower.step.number) == .newStep)
        #expect(failRead(EtcdError(.unavailable, "broken otherwise")) == [.signal, .newStep])
        // A read for a refresh succeeds.
        #expect(read(Self.keyspace(5)) == [.signal, .newStep])
        #expect(follower.failure == nil)
        #expect(follower.step.task == .watch(after: 5))
    }

    @Test("a watch applies the puts and deletions of each revision once")
    mutating func events() throws {
        try startWatching()
        #expect(try receive(Self.events(6, [("b", 6)])) == .signal)
        #expect(keys() == ["a", "b"])
        #expect(try receive(Self.events(8, [("c", 7)], deletions: [("a", 8)])) == .signal)
        #expect(keys() == ["b", "c"])
        #expect(follower.known?.revision == 8)
        #expect(follower.known?.changedAt == 8)
        // Events up to the known revision are skipped.
        #expect(try receive(Self.events(8, [("a", 5)])) == [])
        #expect(keys() == ["b", "c"])
    }

    @Test("with several watches, an event is not applied, but makes the source read all keys and watch again")
    mutating func severalWatches() throws {
        follower = EtcdFollower(maximumBytes: 1000, plan: Self.plan, readsAfterEvents: true)
        try startWatching()
        #expect(try receive(Self.message(9)) == [], "progress of one watch is not that of the others")
        #expect(follower.known?.revision == 5)
        #expect(try receive(Self.events(5, [("a", 5)])) == [], "the read included this event")
        let watch = follower.step.number
        #expect(try receive(Self.events(10, [("b", 10)])) == .newStep)
        #expect(follower.step.task == .read)
        #expect(keys() == ["a"])
        // A late message of the ended watches has no effect.
        #expect(try follower.watchReceived(Self.events(11, [("c", 11)]), number: watch) == [])
        #expect(read(Self.keyspace(11, [("a", 1), ("b", 10)])) == [.signal, .newStep])
        #expect(follower.step.task == .watch(after: 11))
        #expect(keys() == ["a", "b"])
    }

    @Test("after a message, the known revision is that of its last event, not that of its header")
    mutating func catchingUp() throws {
        try startWatching()
        #expect(try receive(Self.events(100, [("b", 6)])) == .signal)
        #expect(follower.known?.revision == 6)
        #expect(try receive(Self.events(100, [("c", 7)])) == .signal)
        #expect(keys() == ["a", "b", "c"])
    }

    @Test("all fragments of a message are applied together when the last one arrives")
    mutating func fragments() throws {
        try startWatching()
        for key in ["b", "c"] {
            var part = Self.events(6, [(key, 6)])
            part.isFragment = true
            #expect(try receive(part) == [])
            #expect(keys() == ["a"])
        }
        #expect(try receive(Self.events(6, [("d", 6)])) == .signal)
        #expect(keys() == ["a", "b", "c", "d"])
    }

    @Test("a message that never ends ends the watch before it exhausts the memory, and all keys are read again")
    mutating func endlessMessage() throws {
        try startWatching()
        var part = Self.events(6, [("b", 6)])
        part.isFragment = true
        var (failure, received) = (EtcdError?.none, 0)
        while failure == nil, received < 10_000 {
            received += 1
            do throws(EtcdError) { _ = try receive(part) } catch { failure = error }
        }
        #expect(failure?.kind == .compacted && received > 100, "\(received)")
        #expect(endWatch(failure) == .newStep)
        #expect(follower.failure == nil)
        #expect(keys() == ["a"])
    }

    @Test("a progress notification advances the known revision, but the response to a progress request does not")
    mutating func progress() throws {
        try startWatching()
        #expect(try receive(Self.message(50)) == [])
        #expect(follower.known?.revision == 50)
        #expect(follower.known?.changedAt == 5)
        var requested = Self.message(60)
        requested.watchID = -1
        #expect(try receive(requested) == [])
        #expect(follower.known?.revision == 50)
    }

    @Test("after a failed watch, the follower pauses, reads and watches again, and the read clears the failure")
    mutating func lostWatch() throws {
        try startWatching()
        #expect(endWatch(Self.broken) == [.signal, .newStep])
        #expect(follower.failure == Self.broken)
        guard case .pause = follower.step.task else { return #expect(Bool(false), "\(follower.step)") }
        #expect(follower.pauseEnded(follower.step.number) == .newStep)
        #expect(follower.step.task == .read)
        // No key has changed, but the read is signaled, because the source works again.
        #expect(read(Self.keyspace(9)) == [.signal, .newStep])
        #expect(follower.failure == nil)
        #expect(follower.known?.changedAt == 5)
        #expect(follower.step.task == .watch(after: 9))
    }

    @Test("a failed watch is reported until another one begins, although reads succeed")
    mutating func failedWatch() throws {
        _ = begin()
        for _ in 0..<3 {
            _ = read(Self.keyspace(5))
            #expect(endWatch(Self.broken) == [.signal, .newStep])
            #expect(follower.watchFailure == Self.broken)
            #expect(read(Self.keyspace(5)) == [.signal, .newStep])
            #expect(follower.failure == nil)
            #expect(follower.watchFailure == Self.broken)
        }
        var created = Self.message(5)
        created.isCreated = true
        #expect(try receive(created) == .signal)
        #expect(follower.watchFailure == nil)
        #expect(try receive(Self.message(6)) == [])
    }

    @Test("the begin of the first watch is signaled")
    mutating func firstWatch() throws {
        _ = begin()
        _ = read(Self.keyspace(5))
        #expect(!follower.hasWatched)
        #expect(try receive(Self.message(5)) == .signal)
        #expect(follower.hasWatched)
    }

    @Test("two watches in a row that end before they begin are a failure, whatever ended them")
    mutating func endlessReads() throws {
        for error in [nil, EtcdError(.compacted, "compacted")] {
            try startWatching()
            _ = endWatch(nil)
            _ = read(Self.keyspace(5))
            #expect(endWatch(error) == .newStep)
            #expect(follower.watchFailure == nil)
            _ = read(Self.keyspace(5))
            #expect(endWatch(error) == [.signal, .newStep])
            #expect(follower.watchFailure != nil)
        }
    }

    @Test("after the end of a watch that had begun, the pause is the splay of the host, whatever ended the watch")
    mutating func splay() throws {
        for error in [Self.broken, nil, EtcdError(.compacted, "compacted")] {
            for _ in 0..<5 {
                try startWatching()
                _ = endWatch(error)
                #expect(follower.step.task == .pause(Self.plan.splay))
            }
        }
    }

    @Test("pauses grow while watches fail before they begin, and are reset once a watch has begun")
    mutating func backoff() throws {
        var (plan, random) = (Self.plan, SeededGenerator(seed: 2))
        (follower, generator) = (EtcdFollower(maximumBytes: 1000, plan: plan), random)
        for _ in 0..<12 {
            _ = read(Self.keyspace(5))
            _ = endWatch(Self.broken)
            #expect(follower.step.task == .pause(plan.delay(after: .failed, using: &random)))
        }
        try startWatching()
        _ = endWatch(Self.broken)
        #expect(follower.step.task == .pause(Self.plan.splay))
        _ = follower.pauseEnded(follower.step.number)
        _ = failRead(Self.broken)
        guard case .pause(let time) = follower.step.task else { return #expect(Bool(false)) }
        #expect(time <= .seconds(30))
    }

    @Test("it is not a failure if the endpoint closes the watch cleanly")
    mutating func cleanEnd() throws {
        try startWatching()
        #expect(endWatch(nil) == .newStep)
        #expect(follower.failure == nil)
    }

    @Test("it is not a failure if a compaction ends the watch, and the keys are read again")
    mutating func compacted() throws {
        try startWatching()
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

    @Test("a watch ends with an error if etcd cancels it, or if a message has another cluster ID or an older revision")
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

    @Test("the results of a step that another step has replaced are ignored")
    mutating func stale() throws {
        try startWatching()
        let old = follower.step.number
        _ = endWatch(nil)
        #expect(try follower.watchReceived(Self.events(6, [("b", 6)]), number: old) == [])
        #expect(keys() == ["a"])
        #expect(follower.watchEnded(Self.broken, number: old, using: &generator) == [])
        #expect(follower.readFailed(Self.broken, number: old, using: &generator) == [])
        #expect(follower.pauseEnded(old) == [])
        #expect(follower.failure == nil)
    }

    @Test("if the watch reports changes during a read, the older keys of the read are discarded")
    mutating func overtaken() throws {
        try startWatching()
        let start = follower.readBegins()
        _ = try receive(Self.events(7, [("b", 7)]))
        #expect(follower.readCompleted(Self.keyspace(6), began: start) == [])
        #expect(keys() == ["a", "b"])
        #expect(follower.known?.revision == 7)
    }

    @Test("a read with changes that the watch has not reported makes the watch suspect until its next message")
    mutating func suspicion() throws {
        try startWatching()
        #expect(read(Self.keyspace(9, [("a", 1), ("b", 8)])) == [.signal, .suspicion])
        #expect(follower.isSuspect)
        #expect(keys() == ["a", "b"])
        #expect(try receive(Self.events(8, [("b", 8)])) == [])
        #expect(!follower.isSuspect)
        // A read without new values does not make the watch suspect.
        #expect(read(Self.keyspace(12, [("a", 1), ("b", 8)])) == [])
        #expect(!follower.isSuspect)
        #expect(follower.known?.changedAt == 9)
    }

    @Test("a read with a smaller revision or another cluster ID (a restored backup) replaces keys and watch")
    mutating func restored() throws {
        try startWatching(Self.keyspace(50))
        #expect(read(Self.keyspace(20, [("old", 3)])) == [.signal, .newStep])
        #expect(keys() == ["old"])
        #expect(follower.known?.changedAt == 20)
        #expect(follower.step.task == .watch(after: 20))
        #expect(read(Self.keyspace(7, [("new", 3)], cluster: "2")) == [.signal, .newStep])
        #expect(keys() == ["new"])
        #expect(follower.known?.cluster == "2")
        #expect(follower.step.task == .watch(after: 7))
    }

    @Test("keys that exceed the size limit end the watch with an error")
    mutating func limit() throws {
        try startWatching()
        var message = Self.message(6)
        let value = [UInt8](repeating: 0, count: 2000)
        message.events = [EtcdEvent(pair: EtcdPair(key: [0x62], value: value, modified: 6), isDeletion: false)]
        let error = #expect(throws: EtcdError.self) {
            try follower.watchReceived(message, number: follower.step.number)
        }
        #expect(error?.kind == .rejected)
        #expect(keys() == ["a"])
    }

    @Test("any order of reads, events and lost watches ends with exactly the keys of the cluster", arguments: 0..<200)
    mutating func anyOrder(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var model = ModelCluster()
        _ = begin()
        var lastChange = 0
        for _ in 0..<200 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4: model.change(using: &random)
            case 4..<7:
                // The watch delivers some of the pending events.
                guard case .watch(let after) = follower.step.task else { break }
                let messages = model.messages(after: max(after, model.delivered), using: &random)
                for message in messages { _ = try receive(message) }
            case 7:
                let start = follower.readBegins()
                let reading = model.keyspace
                if Bool.random(using: &random) { model.change(using: &random) }
                if case .watch(let after) = follower.step.task, Bool.random(using: &random) {
                    for message in model.messages(after: max(after, model.delivered), using: &random) {
                        _ = try receive(message)
                    }
                }
                _ = follower.readCompleted(reading, began: start)
            case 8:
                guard case .watch = follower.step.task else { break }
                _ = endWatch(Bool.random(using: &random) ? Self.broken : nil)
            default:
                if case .pause = follower.step.task { _ = follower.pauseEnded(follower.step.number) }
            }
            if case .watch(let after) = follower.step.task, after > model.delivered { model.delivered = after }
            // Within one cluster, the revision of the last change never decreases.
            #expect(follower.known?.changedAt ?? 0 >= lastChange)
            lastChange = follower.known?.changedAt ?? 0
        }
        _ = begin()
        _ = read(model.keyspace)
        #expect(follower.known?.values == model.keyspace.values)
        #expect(follower.known?.revision == model.keyspace.revision)
    }
}

/// A model of a cluster with the history of all its changes.
private struct ModelCluster {
    private var revision = 1
    private var history: [[EtcdEvent]] = []
    private var pairs: [[UInt8]: EtcdPair] = [:]
    /// The revision up to which the current watch has delivered events.
    var delivered = 0

    var keyspace: EtcdKeyspace {
        var keyspace = EtcdKeyspace(EtcdHeader(cluster: "1", revision: revision))
        keyspace.add(Array(pairs.values))
        return keyspace
    }

    mutating func change(using random: inout SeededGenerator) {
        revision += 1
        var events: [EtcdEvent] = []
        for key in (0..<6 as Range<UInt8>).shuffled(using: &random).prefix(Int.random(in: 1...3, using: &random)) {
            let isDeletion = Bool.random(using: &random)
            if isDeletion && pairs[[key]] == nil { continue }
            let value = isDeletion ? [] : [UInt8.random(in: 0...255, using: &random)]
            let pair = EtcdPair(key: [key], value: value, modified: revision)
            pairs[[key]] = isDeletion ? nil : pair
            events.append(EtcdEvent(pair: pair, isDeletion: isDeletion))
        }
        history.append(events)
    }

    /// Returns the next messages of a watch: complete revisions, some of them in fragments, and a progress notification
    /// if all events have been delivered.
    mutating func messages(after: Int, using random: inout SeededGenerator) -> [EtcdWatchMessage] {
        let last = Int.random(in: after...max(after, revision), using: &random)
        var messages: [EtcdWatchMessage] = []
        for number in (after + 1)..<max(after + 1, last + 1) {
            let events = history[number - 2]
            var message = EtcdWatchMessage(header: EtcdHeader(cluster: "1", revision: revision))
            for (index, event) in events.enumerated() where Bool.random(using: &random) || index == events.count - 1 {
                message.events.append(event)
            }
            // The last message of a revision has some of its events. The other events precede this message, each in a
            // fragment of its own.
            for event in events where !message.events.contains(event) {
                var part = EtcdWatchMessage(header: message.header)
                part.events = [event]
                part.isFragment = true
                messages.append(part)
            }
            if !message.events.isEmpty { messages.append(message) }
        }
        delivered = max(delivered, last)
        if last == revision { messages.append(EtcdWatchMessage(header: EtcdHeader(cluster: "1", revision: revision))) }
        return messages
    }
}
