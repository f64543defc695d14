import LarderJSON

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

/// What the settings say of how a namespace's layers become one document.
struct LayerRules: Sendable, Equatable {
    var locks = LockedPaths()
    var experiments = ExperimentRules()
    /// What takes part in experiments.
    var unit = ""
}

extension NamespaceConfiguration {
    /// The rules for this host.
    func rules(hostIdentity: String) -> LayerRules {
        LayerRules(
            locks: LockedPaths(locks), experiments: experiments, unit: experiments.unit ?? hostIdentity)
    }
}
