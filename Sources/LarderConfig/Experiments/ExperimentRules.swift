/// What the settings say of a namespace's experiments.
public struct ExperimentRules: Sendable, Equatable {
    /// What takes part; nil for the host itself.
    public var unit: String?
    /// The member of the remote document that declares overlays, too; nil for none.
    public var member: String?
    /// The overlays that the settings declare.
    public var overlays: [ExperimentOverlay]

    public init(unit: String? = nil, member: String? = nil, overlays: [ExperimentOverlay] = []) {
        self.unit = unit
        self.member = member
        self.overlays = overlays
    }
}
