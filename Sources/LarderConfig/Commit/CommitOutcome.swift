/// The result of a committed change.
public struct CommitOutcome: Sendable, Hashable {
    /// The revision with the change in it.
    public var revision: Int
    /// Whether the resolved configuration differs from before.
    public var changed: Bool
    /// Whether the layer differs from before.
    public var layerChanged: Bool
    /// The rule by which a rollback holds documents after the change; nil if nothing is held.
    public var hold: HoldRule?
    /// How long the override lasts that was set; nil for other changes.
    public var lifetime: OverrideLifetime?

    /// Whether a rollback holds documents after the change.
    public var isHeld: Bool { hold != nil }

    init(
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
public enum Durability: String, Sendable, CaseIterable {
    /// On disk first, then published and acknowledged.
    case full
    /// Published and acknowledged at once, written in the background.
    case relaxed
}
