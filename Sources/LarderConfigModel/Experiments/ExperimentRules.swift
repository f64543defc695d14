/// What the settings say of a namespace's experiments.
package struct ExperimentRules: Sendable, Equatable {
    /// What takes part; nil for the host itself.
    package var unit: String?
    /// The member of the remote document that declares overlays, too; nil for none.
    package var member: String?
    /// The overlays that the settings declare.
    package var overlays: [ExperimentOverlay]

    package init(unit: String? = nil, member: String? = nil, overlays: [ExperimentOverlay] = []) {
        self.unit = unit
        self.member = member
        self.overlays = overlays
    }
}
