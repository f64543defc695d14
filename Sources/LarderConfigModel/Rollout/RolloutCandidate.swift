import LarderJSON

/// The rollout in progress.
package struct CurrentRollout: Sendable {
    /// The snapshot for canaries; nil if its revision could not be reserved on disk.
    package let candidate: ConfigSnapshot?
    /// Identifies the document that is rolled out.
    package let document: RollbackHold.Refused
    /// When the document arrived, in milliseconds since 1970.
    package let since: Int
}

/// A snapshot for canaries, and the write that had to be on disk before it was shown.
package struct ReservedCandidate: Sendable {
    package let snapshot: ConfigSnapshot
    package let need: CommitNeed

    package init(snapshot: ConfigSnapshot, need: CommitNeed) {
        self.snapshot = snapshot
        self.need = need
    }
}

/// Builds the snapshot for canaries, on any thread.
struct CandidateBuilder: Sendable {
    let layers: Layers
    /// The previous candidate. It stays if its value is the same.
    let previous: ConfigSnapshot?
    let revision: Int
    /// In milliseconds since 1970.
    let now: Int

    @concurrent
    func buildConcurrently() async -> ConfigSnapshot { build() }

    func build() -> ConfigSnapshot {
        let value = layers.withCandidate(now: now).resolvedSharing()
        if let previous, previous.value == value { return previous }
        return ConfigSnapshot(value: value, revision: revision, publishedAt: now)
    }
}
