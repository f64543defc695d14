/// The rules in the settings by which a namespace's layers are merged.
package struct LayerRules: Sendable, Equatable {
    package var locks = LockedPaths()
    package var experiments = ExperimentRules()
    /// The unit for which the experiments of this host are selected.
    package var unit = ""

    package init(
        locks: LockedPaths = LockedPaths(), experiments: ExperimentRules = ExperimentRules(), unit: String = ""
    ) {
        self.locks = locks
        self.experiments = experiments
        self.unit = unit
    }
}
