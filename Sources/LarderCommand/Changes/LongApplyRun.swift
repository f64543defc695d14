import LarderClientCore

/// Applies more changes than one `config.apply` takes, in order, one portion at a time, and displays the progress on a
/// terminal.
actor LongApplyRun {
    private let changes: [ConfigApply.Change]
    private let namespace: String
    private let reason: String?
    private let screen: ProgressDisplay.Screen
    private var applied = 0

    /// Creates a run.
    /// - Parameter changes: the changes, at least one and without conditions.
    init(_ changes: [ConfigApply.Change], namespace: String, reason: String?, screen: ProgressDisplay.Screen) {
        self.changes = changes
        self.namespace = namespace
        self.reason = reason
        self.screen = screen
    }

    /// The number of changes that were made, for people.
    var state: String { "\(applied) of \(Human.count(changes.count, "change", "changes")) applied" }

    /// Applies the changes.
    /// - Returns: the result of the last portion; `changed` is true if any portion changed the configuration.
    /// - Throws: `cancelled` between two portions once the task is cancelled.
    func apply(over client: LarderClient) async throws(LarderClientError) -> ConfigChange {
        defer { if screen.columns() != nil, applied > 0 { screen.write("\n") } }
        var result: ConfigChange?
        for portion in ChangePortion.portions(of: changes.lazy.map { [$0] }) {
            if Task.isCancelled { throw LarderClientError(.cancelled, "the changes were stopped") }
            var change = try await apply(portion, over: client)
            change.changed = change.changed || result?.changed == true
            result = change
            applied += portion.changes.count
            if let columns = screen.columns() { screen.redraw(state, columns: columns) }
        }
        guard let result else { preconditionFailure("a run has at least one change") }
        return result
    }

    /// Applies a portion in a separate task, so that a cancellation does not leave its result unknown.
    private func apply(
        _ portion: ChangePortion, over client: LarderClient
    ) async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigApply.Parameters(portion.changes, namespace: namespace, reason: reason)
        let applying = Task { () async -> Result<ConfigChange, LarderClientError> in
            do throws(LarderClientError) {
                return .success(try await client.call(ConfigApply.self, parameters))
            } catch {
                return .failure(error)
            }
        }
        return try await applying.value.get()
    }
}
