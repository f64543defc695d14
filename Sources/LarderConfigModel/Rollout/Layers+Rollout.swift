extension Layers {
    /// Whether a rollout is in progress: the live remote document is shown only to canaries.
    package var isRollingOut: Bool { holdRule == .rollout }

    /// The layers as canaries see them during a rollout: nothing is held.
    /// - Parameter now: in milliseconds since 1970
    package func withCandidate(now: Int) -> Layers {
        var layers = self
        layers.hold = nil
        layers.applyRulesLeniently(rules, now: now)
        return layers
    }

    /// Replaces the live remote document by a candidate, and holds the document that is shown. During a rollout, the
    /// candidate replaces the previous one. The rules must be applied again afterwards.
    mutating func beginRollout(of candidate: RemoteDocument, _ start: RolloutStart) {
        var hold = hold ?? RollbackHold(revision: start.revision, since: start.since)
        if hold.remote == nil { hold.remote = RollbackHold.Layer(content: remote) }
        if hold.rule != .rollout { hold.revision = start.revision }
        hold.rule = .rollout
        hold.since = start.since
        hold.refused = RollbackHold.Refused(candidate)
        hold.peer = nil
        hold.refusal = nil
        self.hold = hold
        remote = candidate
    }

    /// Turns the hold of a rollout into the hold of a rollback, which a document newer than the candidate ends.
    mutating func refuseCandidate(_ end: RolloutEnd, now: Int) {
        guard var hold else { return }
        hold.rule = .untilNewer
        hold.since = now
        hold.peer = end.peer
        hold.refusal = end.reason ?? "no reason was given"
        self.hold = hold
    }
}
