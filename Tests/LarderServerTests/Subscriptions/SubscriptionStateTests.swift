import LarderProtocol
import TestSupport
import Testing

@testable import LarderServer

@Suite("Subscription state")
struct SubscriptionStateTests {
    typealias State = SubscriptionState

    private static func event(
        _ sequence: Int, skipped: Int = 0, base: Int, _ reason: ConfigEvent.Reason? = nil
    ) -> State.Action {
        .send(State.Event(sequence: sequence, skipped: skipped, base: base, reason: reason))
    }

    /// A subscription at revision 7 whose first event is written.
    private static func active() -> State {
        var state = State(clientRevision: .nothing, current: 7, lastChanged: 7)
        _ = state.replyWritten(revision: 7, current: 7, lastChanged: 7, canWrite: true)
        return state
    }

    @Test(
        "the first event depends on the snapshot that the client has",
        arguments: [
            (.nothing, 7, event(1, base: 7, .initial)),
            (.foreign, 7, event(1, base: 7, .restart)),
            (.current, 7, .none),
            (.outdated(revision: 3, isPatchable: true), 7, event(1, base: 3)),
            (.outdated(revision: 3, isPatchable: false), 7, event(1, base: 3, .gap)),
            (.nothing, 0, .none),
        ] as [(SubscriptionState.ClientRevision, Int, State.Action)])
    func firstEvent(_ received: SubscriptionState.ClientRevision, current: Int, expected: State.Action) {
        var state = State(clientRevision: received, current: current, lastChanged: current)
        let action = state.replyWritten(revision: current, current: current, lastChanged: current, canWrite: true)
        #expect(action == expected)
    }

    @Test("no event precedes the reply to the subscription, and the first event has the newest snapshot")
    func replyFirst() {
        var state = State(clientRevision: .current, current: 7, lastChanged: 7)
        #expect(state.offer(current: 8, previous: 7, canWrite: true) == .none)
        #expect(state.offer(current: 9, previous: 8, canWrite: true) == .none)
        let action = state.replyWritten(revision: 7, current: 9, lastChanged: 9, canWrite: true)
        #expect(action == Self.event(1, skipped: 1, base: 7))
        #expect(state.replyWritten(revision: 7, current: 9, lastChanged: 9, canWrite: true) == .none)
    }

    @Test("snapshots that arrive while output is pending are combined into one event with a skip count")
    func lagging() {
        var state = Self.active()
        #expect(state.offer(current: 8, previous: 7, canWrite: false) == .postpone)
        #expect(state.offer(current: 10, previous: 8, canWrite: false) == .none)
        #expect(state.outputDrained(current: 10, lastChanged: 10, canWrite: false) == .postpone)
        #expect(state.outputDrained(current: 10, lastChanged: 10, canWrite: true) == Self.event(2, skipped: 2, base: 7))
        #expect(state.offer(current: 10, previous: 8, canWrite: true) == .none, "the client has revision 10")
        #expect(state.offer(current: 11, previous: 10, canWrite: true) == Self.event(3, base: 10))
    }

    @Test("before the first snapshot of a namespace, which may have any revision, no snapshot was skipped")
    func firstSnapshot() {
        var state = State(clientRevision: .nothing, current: 0, lastChanged: 0)
        #expect(state.replyWritten(revision: 0, current: 0, lastChanged: 0, canWrite: true) == .none)
        var lagging = state
        let event = Self.event(1, base: 0, .initial)
        #expect(state.offer(current: 1025, previous: 0, canWrite: true) == event)
        #expect(lagging.offer(current: 1025, previous: 0, canWrite: false) == .postpone)
        #expect(lagging.outputDrained(current: 1025, lastChanged: 1025, canWrite: true) == event)
    }

    @Test("the end event follows the reply, has the next sequence number, and is the last event")
    func end() {
        var state = State(clientRevision: .nothing, current: 7, lastChanged: 7)
        #expect(state.end(.shutdown) == .none)
        let action = state.replyWritten(revision: 7, current: 7, lastChanged: 7, canWrite: true)
        #expect(action == .sendEnd(.shutdown, sequence: 1))
        #expect(state.end(.denied) == .none)
        #expect(state.offer(current: 8, previous: 7, canWrite: true) == .none)
        state = Self.active()
        #expect(state.end(.denied) == .sendEnd(.denied, sequence: 2))
        #expect(state.outputDrained(current: 9, lastChanged: 9, canWrite: true) == .none)
    }

    @Test("a closed subscription sends nothing")
    func closed() {
        var states = [State(clientRevision: .nothing, current: 7, lastChanged: 7), Self.active()]
        for index in states.indices {
            states[index].close()
            #expect(states[index].replyWritten(revision: 7, current: 8, lastChanged: 8, canWrite: true) == .none)
            #expect(states[index].offer(current: 8, previous: 7, canWrite: true) == .none)
            #expect(states[index].outputDrained(current: 8, lastChanged: 8, canWrite: true) == .none)
            #expect(states[index].end(.shutdown) == .none)
        }
    }

    @Test("the client gets increasing revisions with correct skip counts in random sequences of operations")
    func randomWalk() {
        for seed in 0..<200 {
            var generator = SeededGenerator(seed: UInt64(seed))
            let isAlwaysChanged = Bool.random(using: &generator)
            var (current, lastChanged, canWrite) = (5, 5, true)
            var state = State(clientRevision: .current, current: current, lastChanged: lastChanged)
            var (isAnnounced, isPostponed, isEnded) = (false, false, false)
            var (received, sequence, covered) = (current, 0, current)
            func take(_ action: State.Action) {
                switch action {
                case .none: break
                case .postpone:
                    #expect(!canWrite && !isPostponed && !isEnded)
                    isPostponed = true
                case .send(let event):
                    #expect(isAnnounced && canWrite && !isEnded)
                    #expect(event.sequence == sequence + 1 && event.base == received && current > received)
                    if isAlwaysChanged { #expect(covered + event.skipped + 1 == current) }
                    (sequence, received, covered) = (event.sequence, current, current)
                case .sendEnd(_, let number):
                    #expect(isAnnounced && !isEnded && number == sequence + 1)
                    isEnded = true
                }
            }
            for _ in 0..<100 {
                switch Int.random(in: 0..<10, using: &generator) {
                case 0...4:
                    let previous = current
                    current += Int.random(in: 1...3, using: &generator)
                    guard isAlwaysChanged || Bool.random(using: &generator) else { continue }
                    lastChanged = current
                    take(state.offer(current: current, previous: previous, canWrite: canWrite))
                case 5: canWrite = false
                case 6...7:
                    canWrite = true
                    if isPostponed {
                        isPostponed = false
                        take(state.outputDrained(current: current, lastChanged: lastChanged, canWrite: true))
                    }
                    if isAnnounced, !isEnded { #expect(received >= lastChanged) }
                case 8:
                    if !isAnnounced {
                        isAnnounced = true
                        take(
                            state.replyWritten(
                                revision: 5, current: current, lastChanged: lastChanged, canWrite: canWrite))
                    }
                default:
                    if Int.random(in: 0..<20, using: &generator) == 0 { take(state.end(.denied)) }
                }
            }
        }
    }
}
