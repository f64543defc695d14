package import LarderJSON

/// The settings for a namespace's experiments.
package struct ExperimentRules: Sendable, Equatable {
    /// The unit for which the overlays of this host are selected; nil if the host itself is the unit.
    @ComparedAsBytes package var unit: String?
    /// The member of the remote document that declares more overlays; nil for none.
    @ComparedAsBytes package var member: String?
    /// The overlays in the settings.
    package var overlays: [ExperimentOverlay]

    package init(unit: String? = nil, member: String? = nil, overlays: [ExperimentOverlay] = []) {
        self.unit = unit
        self.member = member
        self.overlays = overlays
    }
}
