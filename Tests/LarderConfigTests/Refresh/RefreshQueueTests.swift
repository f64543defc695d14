import LarderConfigModel
import LarderConfigSources
import LarderJSON
import TestSupport
import Testing

@testable import LarderConfig

@Suite("Refresh queue")
struct RefreshQueueTests {
    /// A sequence of events, each with its expected result.
    struct EventSequence: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var events: [(event: Event, result: String)]

        init(_ description: String, _ events: [(Event, String)]) {
            testDescription = description
            self.events = events.map { ($0.0, $0.1) }
        }
    }

    enum Event: Sendable {
        case add(RefreshCommand, _ waiter: Int, since: Int = .min)
        case leave(_ waiter: Int)
        case next(at: Int = 0)
        case sourceAnswered
        case overtake
        case end(isStopping: Bool = false)
        case stop

        func perform(on queue: inout RefreshQueue) -> String {
            switch self {
            case .add(let command, let waiter, let earliest):
                return "\(queue.add(command, for: waiter, sharingSince: earliest))"
            case .leave(let waiter): return "\(queue.leave(waiter))"
            case .next(let now):
                switch queue.next(at: now) {
                case .run(let command): return "run \(command.reason.map { "\($0)" } ?? "push")"
                case .end(let waiters): return "end \(waiters)"
                case nil: return "idle"
                }
            case .sourceAnswered:
                queue.sourceAnswered()
                return ""
            case .overtake: return queue.supersedeRunning() ? "cancel" : "continue"
            case .end(let isStopping):
                return queue.attemptEnded(isStopping: isStopping).map { "answer \($0)" } ?? "again"
            case .stop: return "stop \(queue.stop())"
            }
        }
    }

    private static let push = RefreshCommand.push(SourceDocument(value: .emptyObject), force: false)

    static let sequences = [
        EventSequence(
            "commands run one after another in the order of their arrival",
            [
                (.add(.forceRefresh, 1), "queued"), (.add(push, 2), "queued"), (.add(.refreshAfterChange, 3), "queued"),
                (.next(), "run forced"), (.end(), "answer [1]"), (.next(), "run push"), (.end(), "answer [2]"),
                (.next(), "run signaled"), (.end(), "answer [3]"), (.next(), "idle"),
            ]),
        EventSequence(
            "refreshes share a refresh that waits or runs",
            [
                (.add(.refresh, 1), "queued"), (.add(.refresh, 2), "shared"), (.next(), "run requested"),
                (.add(.refresh, 3), "shared"), (.end(), "answer [1, 2, 3]"), (.next(), "idle"),
            ]),
        EventSequence(
            "a refresh does not share a fetch that the source has answered",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.sourceAnswered, ""),
                (.add(.refresh, 2), "queued"), (.end(), "answer [1]"), (.next(), "run requested"),
                (.add(.refresh, 3), "shared"), (.end(), "answer [2, 3]"),
            ]),
        EventSequence(
            "a refresh does not share a fetch that began before the requested time",
            [
                (.add(.refresh, 1), "queued"), (.next(at: 10), "run requested"),
                (.add(.refresh, 2, since: 10), "shared"),
                (.add(.refresh, 3, since: 11), "queued"), (.add(.refresh, 4, since: 20), "shared"),
                (.end(), "answer [1, 2]"), (.next(at: 20), "run requested"), (.end(), "answer [3, 4]"),
            ]),
        EventSequence(
            "a refresh does not share a running refresh if another command waits",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.add(push, 2), "queued"),
                (.add(.refresh, 3), "queued"), (.end(), "answer [1]"), (.next(), "run push"), (.end(), "answer [2]"),
                (.next(), "run requested"), (.end(), "answer [3]"),
            ]),
        EventSequence(
            "a refresh after a change shares only a waiting refresh after a change",
            [
                (.add(.refreshAfterChange, 1), "queued"), (.next(), "run signaled"),
                (.add(.refreshAfterChange, 2), "queued"), (.add(.refreshAfterChange, 3), "shared"),
                (.add(.refresh, 4), "queued"), (.add(.refreshAfterChange, 5), "queued"), (.end(), "answer [1]"),
                (.next(), "run signaled"), (.end(), "answer [2, 3]"),
            ]),
        EventSequence(
            "forced refreshes, pushes and long polls are never shared",
            [
                (.add(.forceRefresh, 1), "queued"), (.add(.forceRefresh, 2), "queued"), (.add(push, 3), "queued"),
                (.add(push, 4), "queued"), (.add(.awaitChange, 5), "queued"), (.add(.awaitChange, 6), "queued"),
            ]),
        EventSequence(
            "a running long poll gives way to any command, including another long poll",
            [
                (.add(.awaitChange, 1), "queued"), (.next(), "run longPoll"), (.add(push, 2), "interrupts"),
                (.end(), "answer [1]"), (.next(), "run push"), (.end(), "answer [2]"),
                (.add(.awaitChange, 3), "queued"), (.next(), "run longPoll"), (.add(.awaitChange, 4), "interrupts"),
                (.end(), "answer [3]"), (.next(), "run longPoll"),
            ]),
        EventSequence(
            "a waiting long poll does not run if another command waits",
            [
                (.add(.awaitChange, 1), "queued"), (.add(.refresh, 2), "queued"), (.next(), "end [1]"),
                (.next(), "run requested"), (.end(), "answer [2]"),
            ]),
        EventSequence(
            "a caller that leaves does not affect the callers that share its command",
            [
                (.add(.refresh, 1), "queued"), (.add(.refresh, 2), "shared"), (.next(), "run requested"),
                (.add(.refresh, 3), "shared"), (.leave(1), "left"), (.leave(1), "unknown"), (.leave(3), "left"),
                (.end(), "answer [2]"),
            ]),
        EventSequence(
            "a waiting command is dropped when its last caller leaves",
            [
                (.add(.refresh, 1), "queued"), (.add(.refresh, 2), "shared"), (.add(push, 3), "queued"),
                (.leave(2), "left"), (.leave(1), "left"), (.next(), "run push"), (.leave(4), "unknown"),
            ]),
        EventSequence(
            "the last caller of a running command gets its result, and no other caller joins",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.leave(1), "abandoned"),
                (.add(.refresh, 2), "queued"), (.end(), "answer [1]"), (.next(), "run requested"),
                (.end(), "answer [2]"),
            ]),
        EventSequence(
            "a fetch runs again if the source was replaced, even after it has responded",
            [
                (.add(.refresh, 1), "queued"), (.next(at: 10), "run requested"), (.sourceAnswered, ""),
                (.overtake, "cancel"), (.end(), "again"), (.next(at: 20), "run requested"),
                (.add(.refresh, 2, since: 20), "shared"), (.end(), "answer [1, 2]"),
            ]),
        EventSequence(
            "replacing the source does not affect a push",
            [(.add(push, 1), "queued"), (.next(), "run push"), (.overtake, "continue"), (.end(), "answer [1]")]),
        EventSequence(
            "an overtaken fetch does not run again if it has no callers or the service stops",
            [
                (.overtake, "continue"), (.add(.refresh, 1), "queued"), (.next(), "run requested"),
                (.overtake, "cancel"),
                (.leave(1), "abandoned"), (.end(), "answer [1]"), (.add(.refresh, 2), "queued"),
                (.next(), "run requested"),
                (.overtake, "cancel"), (.end(isStopping: true), "answer [2]"), (.next(), "idle"),
            ]),
        EventSequence(
            "a fetch that is to run again ends if its last caller leaves first",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.overtake, "cancel"), (.end(), "again"),
                (.leave(1), "abandoned"), (.next(), "end [1]"), (.next(), "idle"),
            ]),
        EventSequence(
            "an overtaken long poll ends instead of running again if another command waits",
            [
                (.add(.awaitChange, 1), "queued"), (.next(), "run longPoll"), (.overtake, "cancel"),
                (.add(push, 2), "interrupts"), (.end(), "again"), (.next(), "end [1]"), (.next(), "run push"),
            ]),
        EventSequence(
            "stopping the queue returns the waiting callers, and later commands are refused",
            [
                (.add(.refresh, 1), "queued"), (.add(.refresh, 2), "shared"), (.add(push, 3), "queued"),
                (.stop, "stop [1, 2, 3]"), (.add(.refresh, 4), "stopped"), (.next(), "idle"), (.stop, "stop []"),
            ]),
    ]

    @Test("the queue returns the expected result for each event", arguments: sequences)
    func events(_ sequence: EventSequence) {
        var queue = RefreshQueue()
        for (number, step) in sequence.events.enumerated() {
            let result = step.event.perform(on: &queue)
            #expect(result == step.result, "event \(number) of \"\(sequence.testDescription)\": \(step.event)")
        }
    }

    @Test(
        "in any order of events, each caller is answered once, from a fetch that is recent enough",
        arguments: [1, 2, SeededGenerator.randomSeed] as [UInt64])
    func randomWalk(_ seed: UInt64) {
        var walk = RefreshQueueWalk(seed: seed)
        for _ in 0..<100 {
            for _ in 0..<200 where walk.violation == nil { walk.step() }
            if walk.violation == nil { walk.drain() }
        }
        for _ in 0..<20 where walk.violation == nil { walk.add() }
        if walk.violation == nil { walk.stop() }
        #expect(walk.violation == nil, "LARDER_TEST_SEED=\(seed) repeats it")
        #expect(walk.answered > 1_000 && walk.sharedAnswers > 100 && walk.reruns > 100, "the walk covers too little")
    }
}

/// Performs random events on a ``RefreshQueue``. Checks that each caller gets one result, from a fetch that is recent
/// enough. The checks use the request of each caller and the events of each attempt, which are recorded independently
/// of the decisions of the queue. Times are numbers of events since the start.
private struct RefreshQueueWalk {
    private struct Caller {
        var reason: FetchReason?
        var arrivedAt: Int
        var earliest: Int
    }

    private struct Attempt {
        var reason: FetchReason?
        var beganAt: Int
        var answeredAt: Int?
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
    /// The reason for a fetch that has to run again; nil if no fetch has to. A push never runs again.
    private var rerun: FetchReason?
    /// The last caller that got a result.
    private var lastAnswered = 0
    private(set) var violation: String?
    private(set) var answered = 0
    private(set) var sharedAnswers = 0
    private(set) var reruns = 0

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    private mutating func random(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }

    private mutating func expect(_ condition: Bool, _ message: String) {
        if !condition, violation == nil { violation = "event \(now): \(message)" }
    }

    mutating func step() {
        now += 1
        // With these probabilities, usually one command runs and none is queued. New callers therefore often share the
        // running command.
        switch random(12) {
        case ..<4: add()
        case 4: leave()
        case 5: overtake()
        case 6:
            queue.sourceAnswered()
            if attempt?.answeredAt == nil { attempt?.answeredAt = now }
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
            .refresh, .refresh, .refresh, .refreshAfterChange, .awaitChange, .forceRefresh,
            .push(SourceDocument(value: .emptyObject), force: false),
        ]
        let command = commands[random(commands.count)]
        lastCaller += 1
        let earliest = random(2) == 0 ? Int.min : now - random(4)
        let isLongPollRunning = attempt?.reason == .longPoll || rerun == .longPoll
        callers[lastCaller] = Caller(reason: command.reason, arrivedAt: now, earliest: earliest)
        switch queue.add(command, for: lastCaller, sharingSince: earliest) {
        case .shared:
            expect(command.reason == .requested || command.reason == .signaled, "a \(command) is shared")
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

    private mutating func overtake() {
        let mustCancel = queue.supersedeRunning()
        expect(mustCancel == (attempt?.reason != nil || rerun != nil), "overtaken: \(mustCancel)")
        attempt?.isSuperseded = true
    }

    private mutating func next() {
        switch queue.next(at: now) {
        case .run(let command):
            expect(rerun == nil || command.reason == rerun, "\(command) runs before the previous command has ended")
            if command.reason == .longPoll { expect(callers.count == 1, "a long poll runs while others wait") }
            attempt = Attempt(reason: command.reason, beganAt: now)
        case .end(let waiters): finish(waiters)
        case nil: expect(callers.isEmpty, "the queue is idle, but callers wait")
        }
        rerun = nil
    }

    private mutating func end() {
        guard let attempt else { return }
        self.attempt = nil
        guard let waiters = queue.attemptEnded(isStopping: false) else {
            expect(attempt.isSuperseded && attempt.reason != nil, "a command that was not overtaken runs again")
            expect(!attempt.isAbandoned, "an abandoned command runs again")
            rerun = attempt.reason
            reruns += 1
            return
        }
        expect(attempt.isAbandoned || attempt.reason == nil || !attempt.isSuperseded, "an overtaken fetch is used")
        expect(!attempt.isAbandoned || waiters.count == 1, "an abandoned command is shared")
        for waiter in waiters {
            guard let caller = callers[waiter] else { continue }
            expect(caller.reason == attempt.reason, "caller \(waiter) got the result of another command")
            let isOwnFetch = attempt.beganAt >= caller.arrivedAt
            let isRecent = attempt.beganAt >= caller.earliest && attempt.answeredAt ?? now >= caller.arrivedAt
            expect(isOwnFetch || (caller.reason == .requested && isRecent), "caller \(waiter) got an older fetch")
        }
        let isShareable = attempt.reason == .requested || attempt.reason == .signaled
        expect(waiters.count == 1 || isShareable, "\(waiters) share a command that cannot be shared")
        if waiters.count > 1 { sharedAnswers += 1 }
        finish(waiters)
    }

    /// Answers the callers of a command.
    private mutating func finish(_ waiters: [Int]) {
        expect(!waiters.isEmpty, "a command without callers")
        expect(waiters == waiters.sorted(), "callers are answered out of order: \(waiters)")
        // Callers are answered in the order of their arrival, even if they share commands.
        expect(waiters.first ?? .max > lastAnswered, "caller \(lastAnswered) was answered before \(waiters)")
        lastAnswered = waiters.last ?? lastAnswered
        for waiter in waiters { resume(waiter) }
    }

    private mutating func resume(_ waiter: Int) {
        expect(callers.removeValue(forKey: waiter) != nil, "caller \(waiter) is answered twice")
        answered += 1
    }
}
