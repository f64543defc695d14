import LarderProtocol

extension Subscription {
    /// The revision that a client holds when it subscribes.
    enum Held: Equatable {
        case nothing
        /// A revision of another epoch, or one that does not exist yet.
        case foreign
        /// A revision with the current value.
        case current
        /// A revision with another value.
        /// - Parameter isPatchable: whether the client accepts a patch to that revision, and the agent can make one.
        case outdated(revision: Int, isPatchable: Bool)
    }

    /// The state of one subscription: which revision its client holds and which events are due. It performs no I/O: each
    /// event of its life returns an action.
    ///
    /// The numbers of the events have no gap. Each event counts the revisions that were published since the event before and
    /// that the client was not offered.
    struct State {
        /// An event that carries the current snapshot.
        struct Event: Equatable {
            /// 1 for the first event.
            var sequence: Int
            var skipped: Int
            /// The revision that the client holds; 0 for none.
            var base: Int
            /// Why the event carries the whole value; nil for a change.
            var reason: ConfigEvent.Reason?
        }

        enum Action: Equatable {
            case none
            case send(Event)
            /// Call ``outputDrained(current:lastChanged:canWrite:)`` when the pending output is written.
            case postpone
            /// Send the last event.
            case sendEnd(ConfigEvent.Reason, sequence: Int)
        }

        private enum Phase {
            /// The reply is not written yet; it may wait for the rest of a batch. No event precedes it.
            case opening(end: ConfigEvent.Reason?)
            case active
            case ended
        }

        private var phase = Phase.opening(end: nil)
        /// The revision that the client holds; 0 for none.
        private var delivered: Int
        /// The number of events that were sent.
        private var sequence = 0
        /// The first revision that the client was not offered, or not yet.
        private var firstMissed: Int?
        /// Whether the subscription waits until pending output is written.
        private var isLagging = false
        /// Why the next event carries the whole value; nil for a change.
        private var pendingReason: ConfigEvent.Reason?

        /// - Parameters:
        ///   - current: the newest revision; 0 before the first snapshot.
        ///   - lastChanged: the revision in which the value changed last.
        init(holding held: Held, current: Int, lastChanged: Int) {
            delivered = current
            switch held {
            case .nothing: pendingReason = .initial
            case .foreign: pendingReason = .restart
            case .current: break
            case .outdated(let revision, let isPatchable):
                delivered = revision
                if !isPatchable { pendingReason = .gap }
            }
            if needsEvent(current, lastChanged) { firstMissed = current }
        }

        /// Begins to send events.
        /// - Parameter revision: the revision that the reply names.
        mutating func replyWritten(revision: Int, current: Int, lastChanged: Int, canWrite: Bool) -> Action {
            guard case .opening(let reason) = phase else { return .none }
            phase = .active
            if let reason { return end(reason) }
            guard needsEvent(current, lastChanged) else { return .none }
            return send(current, after: revision, canWrite)
        }

        /// Takes a snapshot with another value. Several that come while output is pending make one event.
        /// - Parameter previous: the last revision that all subscriptions of the event loop were offered.
        mutating func offer(current: Int, previous: Int, canWrite: Bool) -> Action {
            guard case .active = phase, delivered < current else { return .none }
            return send(current, after: previous, canWrite)
        }

        /// Sends the snapshot that was missed while output was pending, unless output is pending again.
        mutating func outputDrained(current: Int, lastChanged: Int, canWrite: Bool) -> Action {
            guard case .active = phase else { return .none }
            guard canWrite else { return .postpone }
            isLagging = false
            guard needsEvent(current, lastChanged) else {
                firstMissed = nil
                return .none
            }
            return send(current, after: current, true)
        }

        /// Ends the subscription with an event, which follows the reply.
        mutating func end(_ reason: ConfigEvent.Reason) -> Action {
            switch phase {
            case .opening:
                phase = .opening(end: reason)
                return .none
            case .active:
                phase = .ended
                sequence += 1
                return .sendEnd(reason, sequence: sequence)
            case .ended: return .none
            }
        }

        /// Ends the subscription without an event.
        mutating func close() { phase = .ended }

        private func needsEvent(_ current: Int, _ lastChanged: Int) -> Bool {
            current > 0 && (pendingReason != nil || lastChanged > delivered)
        }

        private mutating func send(_ current: Int, after previous: Int, _ canWrite: Bool) -> Action {
            guard canWrite else {
                if firstMissed == nil { firstMissed = previous + 1 }
                if isLagging { return .none }
                isLagging = true
                return .postpone
            }
            sequence += 1
            let event = Event(
                sequence: sequence, skipped: max(0, current - (firstMissed ?? previous + 1)), base: delivered,
                reason: pendingReason)
            delivered = current
            firstMissed = nil
            pendingReason = nil
            return .send(event)
        }
    }
}
