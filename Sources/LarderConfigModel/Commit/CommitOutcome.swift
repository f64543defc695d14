/// The result of a committed change.
package struct CommitOutcome: Sendable, Hashable {
    /// The revision of the snapshot that contains the change.
    package var revision: Int
    /// Whether this change has changed its layer, and its batch was published as a new snapshot. The snapshot may be
    /// new only because of another change of the same batch.
    package var changed: Bool
    /// Whether this change has changed its layer.
    package var layerChanged: Bool
    /// The rule of the rollback hold after the change; nil if there is no hold.
    package var hold: HoldRule?
    /// The lifetime of the override that was set; nil for other changes.
    package var lifetime: OverrideLifetime?
    /// The new number at the path of an increment; nil for other changes.
    package var number: Int?

    /// Whether a rollback hold is in effect after the change.
    package var isHeld: Bool { hold != nil }

    package init(
        revision: Int, changed: Bool, layerChanged: Bool, hold: HoldRule? = nil, lifetime: OverrideLifetime? = nil,
        number: Int? = nil
    ) {
        self.revision = revision
        self.changed = changed
        self.layerChanged = layerChanged
        self.hold = hold
        self.lifetime = lifetime
        self.number = number
    }
}

/// Whether a client's change is on disk before it is acknowledged.
package enum Durability: String, Sendable, CaseIterable {
    /// The change is written to disk, then published and acknowledged.
    case full
    /// The change is published and acknowledged at once, and written in the background.
    case relaxed
}
