/// How the settings say that the layers of a namespace become one document.
package struct LayerRules: Sendable, Equatable {
    package var locks = LockedPaths()
    package var experiments = ExperimentRules()
    /// What takes part in experiments.
    package var unit = ""

    package init(
        locks: LockedPaths = LockedPaths(), experiments: ExperimentRules = ExperimentRules(), unit: String = ""
    ) {
        self.locks = locks
        self.experiments = experiments
        self.unit = unit
    }
}
