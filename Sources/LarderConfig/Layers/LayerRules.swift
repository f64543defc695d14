/// How the settings say that the layers of a namespace become one document.
struct LayerRules: Sendable, Equatable {
    var locks = LockedPaths()
    var experiments = ExperimentRules()
    /// What takes part in experiments.
    var unit = ""

    init(locks: LockedPaths = LockedPaths(), experiments: ExperimentRules = ExperimentRules(), unit: String = "") {
        self.locks = locks
        self.experiments = experiments
        self.unit = unit
    }
}
