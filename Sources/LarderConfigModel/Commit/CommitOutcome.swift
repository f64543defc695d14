/// The result of a committed change.
package struct CommitOutcome: Sendable, Hashable {
    /// The revision with the change in it.
    package var revision: Int
    /// Whether the resolved configuration differs from before.
    package var changed: Bool
    /// Whether the layer differs from before.
    package var layerChanged: Bool
    /// The rule by which a rollback holds documents after the change; nil if nothing is held.
    package var hold: HoldRule?
    /// How long the override lasts that was set; nil for other changes.
    package var lifetime: OverrideLifetime?

    /// Whether a rollback holds documents after the change.
    package var isHeld: Bool { hold != nil }

    package init(
        revision: Int, changed: Bool, layerChanged: Bool, hold: HoldRule? = nil, lifetime: OverrideLifetime? = nil
    ) {
        self.revision = revision
        self.changed = changed
        self.layerChanged = layerChanged
        self.hold = hold
        self.lifetime = lifetime
    }
}

/// Whether a client's change is on disk before it is acknowledged.
package enum Durability: String, Sendable, CaseIterable {
    /// On disk first, then published and acknowledged.
    case full
    /// Published and acknowledged at once, written in the background.
    case relaxed
}
