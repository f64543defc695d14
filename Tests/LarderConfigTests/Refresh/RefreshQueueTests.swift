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
        /// The source responds with a document.
        case respond(order: Int? = nil)
        /// The fetch fails.
        case fail(order: Int? = nil)
        case replaceSource
        case end(isStopping: Bool = false)
        case stop

        func perform(on queue: inout RefreshQueue) -> String {
            switch self {
            case .add(let command, let waiter, let earliest):
                return "\(queue.add(command, for: waiter, sharingSince: earliest))"
            case .leave(let waiter): return "\(queue.leave(waiter))"
            case .next(let now):
                switch queue.next(at: now) {
                case .run(.delivery): return "run delivery"
                case .run(let command): return "run \(command.reason.map { "\($0)" } ?? "push")"
                case .end(let waiters): return "end \(waiters)"
                case nil: return "idle"
                }
            case .respond(let order):
                return queue.fetchEnded(.some, order: order) ? "use" : "discard"
            case .fail(let order): return queue.fetchEnded(nil, order: order) ? "failed" : "discard"
            case .replaceSource:
                let (cancelsRunning, dropped) = queue.replaceSource()
                return (cancelsRunning ? "cancel" : "continue") + (dropped.isEmpty ? "" : ", drop \(dropped)")
            case .end(let isStopping):
                return queue.attemptEnded(isStopping: isStopping).map { "answer \($0)" } ?? "again"
            case .stop: return "stop \(queue.stop())"
            }
        }
    }

    private static let push = RefreshCommand.push(SourceDocument(value: .emptyObject), force: false)

    /// - Parameter order: the order of the delivered document
    private static func delivery(_ order: Int? = nil) -> RefreshCommand {
        .delivery(SourceDelivery(.success(.some), order: order))
    }

    static let sequences = [
        EventSequence(
            "commands run one after another in the order of their arrival",
            [
                (.add(.forceRefresh, 1), "queued"), (.add(push, 2), "queued"), (.add(delivery(), 3), "queued"),
                (.next(), "run forced"), (.end(), "answer [1]"), (.next(), "run push"), (.end(), "answer [2]"),
                (.next(), "run delivery"), (.end(), "answer [3]"), (.next(), "idle"),
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
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.respond(), "use"),
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
            "deliveries are not shared, and a refresh does not share a request behind one",
            [
                (.add(delivery(), 1), "queued"), (.next(), "run delivery"), (.add(delivery(), 2), "queued"),
                (.add(.refresh, 3), "queued"), (.add(delivery(), 4), "queued"), (.add(.refresh, 5), "queued"),
                (.add(.refresh, 6), "shared"), (.end(), "answer [1]"), (.next(), "run delivery"),
                (.end(), "answer [2]"),
                (.next(), "run requested"), (.add(.refresh, 7), "shared"),
            ]),
        EventSequence(
            "a delivery that is newer than the response to a running request is applied after it",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.add(delivery(2), 2), "queued"),
                (.respond(order: 1), "use"), (.end(), "answer [1]"), (.next(), "run delivery"), (.end(), "answer [2]"),
            ]),
        EventSequence(
            "a delivery that is not newer than the response to a running request is dropped",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.add(delivery(1), 2), "queued"),
                (.add(push, 3), "queued"), (.respond(order: 1), "use"), (.end(), "answer [1, 2]"),
                (.next(), "run push"),
            ]),
        EventSequence(
            "if the order is unknown, the response is discarded and requested again after the delivery, before others",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.add(delivery(), 2), "queued"),
                (.add(push, 3), "queued"), (.respond(order: 1), "discard"), (.end(), "again"),
                (.next(), "run delivery"), (.end(), "answer [2]"), (.next(), "run requested"), (.respond(), "use"),
                (.end(), "answer [1]"), (.next(), "run push"), (.end(), "answer [3]"),
            ]),
        EventSequence(
            "at most two responses of a request are discarded",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.add(delivery(), 2), "queued"),
                (.respond(), "discard"), (.end(), "again"), (.next(), "run delivery"), (.end(), "answer [2]"),
                (.next(), "run requested"), (.add(delivery(), 3), "queued"), (.respond(), "discard"),
                (.end(), "again"), (.next(), "run delivery"), (.end(), "answer [3]"), (.next(), "run requested"),
                (.add(delivery(), 4), "queued"), (.respond(), "use"), (.end(), "answer [1]"),
                (.next(), "run delivery"), (.end(), "answer [4]"),
            ]),
        EventSequence(
            "the response to a forced refresh is not discarded, and the delivery follows",
            [
                (.add(.forceRefresh, 1), "queued"), (.next(), "run forced"), (.add(delivery(), 2), "queued"),
                (.respond(), "use"), (.end(), "answer [1]"), (.next(), "run delivery"), (.end(), "answer [2]"),
            ]),
        EventSequence(
            "the response to a request that was sent after the delivery counts, and the delivery is dropped",
            [
                (.add(push, 1), "queued"), (.add(.refresh, 2), "queued"), (.next(), "run push"),
                (.add(delivery(), 3), "queued"), (.end(), "answer [1]"), (.next(), "run requested"),
                (.respond(), "use"), (.end(), "answer [2, 3]"), (.next(), "idle"),
            ]),
        EventSequence(
            "a delivery that reaches the queue after the response that is newer does not run",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.respond(order: 2), "use"),
                (.add(delivery(1), 2), "queued"), (.add(delivery(2), 3), "queued"), (.end(), "answer [1]"),
                (.next(), "end [2]"), (.next(), "run delivery"),
            ]),
        EventSequence(
            "a delivery that is older than a failed fetch does not run, but one of unknown age does",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.add(delivery(1), 2), "queued"),
                (.add(delivery(), 3), "queued"), (.fail(order: 2), "failed"), (.end(), "answer [1]"),
                (.next(), "end [2]"), (.next(), "run delivery"),
            ]),
        EventSequence(
            "a failure follows the response with the same order",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"),
                (
                    .add(.delivery(SourceDelivery(.failure(ConfigError(.upstreamFailed, "down")), order: 1)), 2),
                    "queued"
                ),
                (.respond(order: 1), "use"), (.end(), "answer [1]"), (.next(), "run delivery"),
            ]),
        EventSequence(
            "a response is discarded if a newer delivery confirms the document that it would replace",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"),
                (.add(.delivery(SourceDelivery(.success(.notModified), order: 2)), 2), "queued"),
                (.respond(order: 1), "discard"), (.end(), "again"), (.next(), "run delivery"), (.end(), "answer [2]"),
                (.next(), "run requested"),
            ]),
        EventSequence(
            "a discarded request runs again even if the caller of the delivery leaves",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.add(delivery(), 2), "queued"),
                (.add(push, 3), "queued"), (.respond(), "discard"), (.leave(2), "left"), (.end(), "again"),
                (.next(), "run requested"), (.end(), "answer [1]"), (.next(), "run push"),
            ]),
        EventSequence(
            "deliveries of a source that was replaced do not run, and one that runs ends",
            [
                (.add(delivery(), 1), "queued"), (.add(.refresh, 2), "queued"), (.add(delivery(), 3), "queued"),
                (.next(), "run delivery"), (.replaceSource, "cancel, drop [3]"), (.end(), "answer [1]"),
                (.next(), "run requested"), (.add(delivery(), 4), "queued"), (.replaceSource, "cancel, drop [4]"),
                (.end(), "again"), (.next(), "run requested"), (.end(), "answer [2]"), (.next(), "idle"),
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
                (.add(.refresh, 1), "queued"), (.next(at: 10), "run requested"), (.respond(), "use"),
                (.replaceSource, "cancel"), (.end(), "again"), (.next(at: 20), "run requested"),
                (.add(.refresh, 2, since: 20), "shared"), (.end(), "answer [1, 2]"),
            ]),
        EventSequence(
            "replacing the source does not affect a push",
            [(.add(push, 1), "queued"), (.next(), "run push"), (.replaceSource, "continue"), (.end(), "answer [1]")]),
        EventSequence(
            "an overtaken fetch does not run again if it has no callers or the service stops",
            [
                (.replaceSource, "continue"), (.add(.refresh, 1), "queued"), (.next(), "run requested"),
                (.replaceSource, "cancel"),
                (.leave(1), "abandoned"), (.end(), "answer [1]"), (.add(.refresh, 2), "queued"),
                (.next(), "run requested"),
                (.replaceSource, "cancel"), (.end(isStopping: true), "answer [2]"), (.next(), "idle"),
            ]),
        EventSequence(
            "a fetch that is to run again ends if its last caller leaves first",
            [
                (.add(.refresh, 1), "queued"), (.next(), "run requested"), (.replaceSource, "cancel"),
                (.end(), "again"),
                (.leave(1), "abandoned"), (.next(), "end [1]"), (.next(), "idle"),
            ]),
        EventSequence(
            "an overtaken long poll ends instead of running again if another command waits",
            [
                (.add(.awaitChange, 1), "queued"), (.next(), "run longPoll"), (.replaceSource, "cancel"),
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
        #expect(
            walk.answered > 1_000 && walk.sharedAnswers > 100 && walk.reruns > 100
                && walk.discarded + walk.dropped > 20, "the walk covers too little")
    }
}
