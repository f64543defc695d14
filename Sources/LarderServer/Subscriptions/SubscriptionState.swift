import LarderProtocol

/// The state of one subscription: the revision that its client has, and the events that are due. It performs no
/// I/O: each method returns an action.
///
/// Events are numbered consecutively. Each event also counts the revisions that were published since the previous
/// event but not sent to the client (`skipped`).
struct SubscriptionState {
    /// How the revision that a client has when it subscribes relates to the current revision.
    enum ClientRevision: Equatable {
        case nothing
        /// A revision of another epoch, or one that does not exist yet.
        case foreign
        /// A revision with the same value as the current one.
        case current
        /// A revision with another value.
        /// - Parameter isPatchable: whether the client accepts a patch relative to that revision and the agent can make
        ///   one
        case outdated(revision: Int, isPatchable: Bool)
    }

    /// An event with the current snapshot.
    struct Event: Equatable {
        /// The number of the event, from 1.
        var sequence: Int
        var skipped: Int
        /// The revision that the client has; 0 for none.
        var base: Int
        /// The reason why the event contains the whole value; nil for an ordinary change.
        var reason: ConfigEvent.Reason?
    }

    enum Action: Equatable {
        case none
        case send(Event)
        /// Call ``outputDrained(current:lastChanged:canWrite:)`` when pending output has drained.
        case postpone
        /// Send the `end` event, which is the last one.
        case sendEnd(ConfigEvent.Reason, sequence: Int)
    }

    private enum Phase {
        /// The reply has not been written; it may wait for the rest of a batch. Events follow the reply. `end` is
        /// the reason to end the subscription after the reply; nil to start sending events then.
        case opening(end: ConfigEvent.Reason?)
        case active
        case ended
    }

    private var phase = Phase.opening(end: nil)
    /// The revision that the client has; 0 for none.
    private var delivered: Int
    /// The number of events sent.
    private var sequence = 0
    /// The first revision that was not sent since the last event, because output was pending; nil if no event is
    /// postponed.
    private var firstMissed: Int?
    /// Whether the subscription waits for pending output to drain.
    private var isLagging = false
    /// The reason why the next event must contain the whole value; nil for an ordinary change.
    private var pendingReason: ConfigEvent.Reason?

    /// - Parameters:
    ///   - current: the newest revision; 0 before the first snapshot
    ///   - lastChanged: the last revision in which the value changed
    init(clientRevision known: ClientRevision, current: Int, lastChanged: Int) {
        delivered = current
        switch known {
        case .nothing: pendingReason = .initial
        case .foreign: pendingReason = .restart
        case .current: break
        case .outdated(let revision, let isPatchable):
            delivered = revision
            if !isPatchable { pendingReason = .gap }
        }
        if needsEvent(current, lastChanged) { firstMissed = current }
    }

    /// Starts to send events. Called when the reply to the subscription request has been written.
    /// - Parameter revision: the revision in the reply
    mutating func replyWritten(revision: Int, current: Int, lastChanged: Int, canWrite: Bool) -> Action {
        guard case .opening(let reason) = phase else { return .none }
        phase = .active
        if let reason { return end(reason) }
        guard needsEvent(current, lastChanged) else { return .none }
        return send(current, after: revision, canWrite)
    }

    /// Handles a snapshot with a changed value. Changes that arrive while output is pending result in one event.
    /// - Parameter previous: the revision of the last snapshot before the current one that was offered to all
    ///   subscriptions of the event loop
    mutating func offer(current: Int, previous: Int, canWrite: Bool) -> Action {
        guard case .active = phase, delivered < current else { return .none }
        return send(current, after: previous, canWrite)
    }

    /// Sends the newest snapshot if the subscription missed it while output was pending. Postpones the event if
    /// output is pending again.
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

    /// Ends the subscription with an `end` event. The event waits until the reply was written.
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
        // Before the first snapshot of the namespace nothing was published, whatever its revision is.
        let next = previous == 0 ? current : previous + 1
        guard canWrite else {
            if firstMissed == nil { firstMissed = next }
            if isLagging { return .none }
            isLagging = true
            return .postpone
        }
        sequence += 1
        let event = Event(
            sequence: sequence, skipped: max(0, current - (firstMissed ?? next)), base: delivered,
            reason: pendingReason)
        delivered = current
        firstMissed = nil
        pendingReason = nil
        return .send(event)
    }
}
