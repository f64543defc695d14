import LarderConfigSources
import LarderJSON
import TestSupport

@testable import LarderConfigModel
@testable import LarderConfig

extension SourceResponse {
    /// A response with a document of its own.
    static var some: SourceResponse { .document(SourceDocument(value: ["n": 1])) }
}

/// Performs random events on a ``RefreshQueue``. Checks that each caller gets one result, from a fetch that is recent
/// enough, and that no document replaces a newer one. The checks use the request of each caller and the events of each
/// attempt, which are recorded independently of the decisions of the queue. Times are numbers of events since the start.
struct RefreshQueueWalk {
    private enum Kind: Equatable {
        case fetch(FetchReason)
        case push
        /// `order`: when the document was made; nil if the source does not know.
        case delivery(order: Int?)

        init(_ command: RefreshCommand) {
            switch command {
            case .push: self = .push
            case .delivery(let delivery): self = .delivery(order: delivery.order)
            default: self = .fetch(command.reason ?? .requested)
            }
        }

        var reason: FetchReason? { if case .fetch(let reason) = self { reason } else { nil } }
        var isDelivery: Bool { if case .delivery = self { true } else { false } }
    }

    private struct Caller {
        var kind: Kind
        var arrivedAt: Int
        var earliest: Int
        /// Whether the source has responded to a fetch since the caller arrived.
        var isAnswered = false
        /// Whether the caller gets the result of a fetch instead of that of its delivery.
        var isDropped = false
    }

    private struct Attempt {
        var kind: Kind
        var beganAt: Int
        var respondedAt: Int?
        /// When the document of the response was made; nil if the source does not know, or before the response.
        var order: Int?
        var isDiscarded = false
        var isSuperseded = false
        var isAbandoned = false
    }

    private var queue = RefreshQueue()
    private var generator: SeededGenerator
    private var now = 0
    private var lastCaller = 0
    /// The callers that wait for an answer.
    private var callers: [Int: Caller] = [:]
    /// The attempt whose task runs; nil if none runs.
    private var attempt: Attempt?
    /// The reason for a fetch that has to run again at once; nil if no fetch has to.
    private var rerun: FetchReason?
    /// The last caller of a fetch or push, and the last one of a command other than a shared refresh, that got a result.
    private var (lastOfOwn, lastExclusive) = (0, 0)
    /// The order of the document that was applied last; nil if it is unknown or was pushed.
    private var lastOrder: Int?
    private(set) var violation: String?
    private(set) var (answered, sharedAnswers, reruns, discarded, dropped) = (0, 0, 0, 0, 0)

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    private mutating func random(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }

    private mutating func expect(_ condition: Bool, _ message: String) {
        if !condition, violation == nil { violation = "event \(now): \(message)" }
    }

    mutating func step() {
        now += 1
        // With these probabilities, usually one command runs and none is queued. New callers therefore often share the
        // running command.
        switch random(16) {
        case ..<4: add()
        case 4: leave()
        case 5: replaceSource()
        case 6...8: respond()
        default:
            if attempt == nil { next() } else { end() }
        }
        expect(queue.isAtWork == !callers.isEmpty, "\(callers.count) callers wait, but isAtWork is \(queue.isAtWork)")
    }

    /// Runs all commands until the queue is idle.
    mutating func drain() {
        if attempt != nil { end() }
        while violation == nil, queue.isAtWork {
            now += 1
            if attempt == nil { next() } else { end() }
        }
        expect(callers.isEmpty, "callers \(callers.keys.sorted()) got no result")
        rerun = nil
    }

    mutating func stop() {
        let waiters = queue.stop()
        for waiter in waiters { resume(waiter) }
        if attempt != nil {
            for waiter in queue.attemptEnded(isStopping: true) ?? [] { resume(waiter) }
        }
        expect(callers.isEmpty, "callers \(callers.keys.sorted()) got no result when the queue stopped")
    }

    mutating func add() {
        let commands: [RefreshCommand] = [
            .refresh, .refresh, .refresh, .awaitChange, .forceRefresh,
            .push(SourceDocument(value: .emptyObject), force: false),
            .delivery(SourceDelivery(.success(.some), order: now)), .delivery(SourceDelivery(.success(.some))),
            .delivery(SourceDelivery(.success(.some))),
        ]
        let command = commands[random(commands.count)]
        lastCaller += 1
        let earliest = random(2) == 0 ? Int.min : now - random(4)
        let isLongPollRunning = attempt?.kind.reason == .longPoll || rerun == .longPoll
        callers[lastCaller] = Caller(kind: Kind(command), arrivedAt: now, earliest: earliest)
        switch queue.add(command, for: lastCaller, sharingSince: earliest) {
        case .shared:
            expect(command.reason == .requested, "a \(command) is shared")
            expect(!isLongPollRunning || callers.count > 2, "a long poll is shared")
        case .queued: expect(!isLongPollRunning, "a long poll does not give way")
        case .interrupts: expect(isLongPollRunning, "a command other than a long poll is interrupted")
        case .stopped: expect(false, "the queue was not stopped")
        }
    }

    private mutating func leave() {
        // Sometimes the chosen caller already has its result.
        let waiter =
            random(5) == 0 ? 1 + random(lastCaller + 1) : callers.keys.sorted().randomElement(using: &generator)
        guard let waiter else { return }
        switch queue.leave(waiter) {
        case .unknown: expect(callers[waiter] == nil, "the waiting caller \(waiter) is unknown")
        case .left: resume(waiter)
        case .abandoned:
            expect(attempt != nil || rerun != nil, "no command runs that could be abandoned")
            expect(callers[waiter] != nil, "caller \(waiter) abandons a command after its result")
            attempt?.isAbandoned = true
        }
    }

    private mutating func replaceSource() {
        let (mustCancel, waiters) = queue.replaceSource()
        expect(mustCancel == (rerun != nil || attempt.map { $0.kind != .push } ?? false), "replaced: \(mustCancel)")
        for waiter in waiters {
            expect(callers[waiter]?.kind.isDelivery == true, "caller \(waiter) does not wait for a delivery")
            resume(waiter)
        }
        let deliveries = callers.values.filter { $0.kind.isDelivery && !$0.isAnswered }
        expect(deliveries.count < 2, "a delivery of the previous source waits")
        if attempt?.kind.isDelivery == true { attempt?.isAbandoned = true } else { attempt?.isSuperseded = true }
        lastOrder = nil
    }

    private mutating func respond() {
        guard let running = attempt, running.kind.reason != nil, running.respondedAt == nil else { return }
        let order = random(2) == 0 ? nil : Int.random(in: running.beganAt...now, using: &generator)
        attempt?.respondedAt = now
        attempt?.order = order
        for caller in callers.keys { callers[caller]?.isAnswered = true }
        if queue.fetchEnded(.some, order: order) { return }
        expect(running.kind.reason != .forced, "the response to a forced refresh is discarded")
        expect(
            callers.values.contains { $0.kind.isDelivery && $0.arrivedAt >= running.beganAt },
            "a response is discarded without a delivery")
        attempt?.isDiscarded = true
        discarded += 1
    }

    private mutating func next() {
        switch queue.next(at: now) {
        case .run(let command):
            expect(rerun == nil || command.reason == rerun, "\(command) runs before the previous command has ended")
            if command.reason == .longPoll { expect(callers.count == 1, "a long poll runs while others wait") }
            attempt = Attempt(kind: Kind(command), beganAt: now)
        case .end(let waiters): finish(waiters)
        case nil: expect(callers.isEmpty, "the queue is idle, but callers wait")
        }
        rerun = nil
    }

    private mutating func end() {
        guard let attempt else { return }
        self.attempt = nil
        guard let waiters = queue.attemptEnded(isStopping: false) else {
            expect(attempt.isSuperseded || attempt.isDiscarded, "a command runs again whose result could be used")
            expect(attempt.kind.reason != nil, "a push or a delivery runs again")
            expect(!attempt.isAbandoned, "an abandoned command runs again")
            if attempt.isSuperseded { rerun = attempt.kind.reason }
            reruns += 1
            return
        }
        let isUsed = !attempt.isAbandoned
        expect(!isUsed || attempt.kind.reason == nil || !attempt.isSuperseded, "a superseded fetch is used")
        expect(!isUsed || !attempt.isDiscarded, "a discarded response is used")
        expect(isUsed || waiters.count == 1, "an abandoned command is shared")
        let own = waiters.filter { callers[$0]?.kind == attempt.kind }
        for waiter in waiters {
            guard let caller = callers[waiter] else { continue }
            if caller.kind.isDelivery, attempt.kind.reason != nil {
                expect(caller.isAnswered, "the delivery of caller \(waiter) is dropped without a response")
                if case .delivery(let order?) = caller.kind, let response = attempt.order {
                    expect(response >= order, "a delivery is dropped that is newer than the response")
                }
                callers[waiter]?.isDropped = true
                dropped += 1
                continue
            }
            expect(caller.kind == attempt.kind, "caller \(waiter) got the result of another command")
            let isOwnFetch = attempt.beganAt >= caller.arrivedAt
            let isRecent = attempt.beganAt >= caller.earliest && attempt.respondedAt ?? now >= caller.arrivedAt
            expect(isOwnFetch || (caller.kind.reason == .requested && isRecent), "caller \(waiter) got an older fetch")
        }
        expect(own.count < 2 || attempt.kind.reason == .requested, "\(own) share a command that cannot be shared")
        if own.count > 1 { sharedAnswers += 1 }
        if isUsed || attempt.kind == .push { applied(attempt) }
        finish(waiters)
    }

    /// Checks that a delivery is newer than the fetched document that it replaces.
    private mutating func applied(_ attempt: Attempt) {
        switch attempt.kind {
        // A delivery interrupts a long poll, whose response is not used then.
        case .push, .fetch(.longPoll): lastOrder = nil
        case .delivery(let order):
            if let order, let lastOrder { expect(order >= lastOrder, "a delivery replaces a newer document") }
            lastOrder = order
        case .fetch: if attempt.respondedAt != nil { lastOrder = attempt.order }
        }
    }

    /// Answers the callers of a command.
    private mutating func finish(_ waiters: [Int]) {
        expect(!waiters.isEmpty, "a command without callers")
        expect(waiters == waiters.sorted(), "callers are answered out of order: \(waiters)")
        // Callers are answered in the order of their arrival, even if they share commands. Only a delivery may overtake
        // a refresh, whose response is then discarded.
        for waiter in waiters {
            guard let caller = callers[waiter], !caller.isDropped else { continue }
            let kind = caller.kind
            if !kind.isDelivery {
                expect(waiter > lastOfOwn, "caller \(lastOfOwn) was answered before \(waiters)")
                lastOfOwn = waiter
            }
            if kind.reason != .requested, kind.reason != .longPoll {
                expect(waiter > lastExclusive, "caller \(lastExclusive) was answered before \(waiters)")
                lastExclusive = waiter
            }
        }
        for waiter in waiters { resume(waiter) }
    }

    private mutating func resume(_ waiter: Int) {
        expect(callers.removeValue(forKey: waiter) != nil, "caller \(waiter) is answered twice")
        answered += 1
    }
}
