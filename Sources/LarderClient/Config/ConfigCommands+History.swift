public import LarderProtocol

/// How a value came about, and what was before it.
extension ConfigCommands {
    /// What each layer says at a path, which of them wins, and where each has it from.
    ///
    /// ```swift
    /// let explanation = try await client.config.explain("search.limit")
    /// print(explanation.winner ?? "nobody", explanation.layers.last?.value ?? .null)
    /// ```
    /// Values that the settings call secret come as `"<masked>"`, unless this process may see them.
    public func explain(
        _ path: String = "", namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigExplain.Result {
        let parameters = ConfigExplain.Parameters(path: try JSONPath(argument: path), namespace: namespace)
        return try await client.call(ConfigExplain.self, parameters)
    }

    /// The newest snapshots and why each came into being, newest first.
    ///
    /// ```swift
    /// for generation in try await client.config.history(limit: 5).generations {
    ///     print(generation.revision, generation.publishedAt, generation.causes.map(\.kind))
    /// }
    /// ```
    /// - Parameter limit: how many at most; nil for all that the agent knows.
    public func history(
        limit: Int? = nil, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigHistory.Result {
        try await client.call(ConfigHistory.self, ConfigHistory.Parameters(namespace: namespace, limit: limit))
    }

    /// What differs between two snapshots of the history.
    ///
    /// ```swift
    /// let difference = try await client.config.diff(from: 40)
    /// for change in difference.changes { print(change.kind, change.path) }
    /// ```
    /// - Parameters:
    ///   - from: the revision to begin from.
    ///   - to: the revision to go to; nil for the current one.
    /// - Throws: `remote` with `notFound` where a revision is not known any more.
    public func diff(
        from: Int, to: Int? = nil, at path: String = "", namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigDiff.Result {
        let parameters = ConfigDiff.Parameters(
            from: from, to: to, namespace: namespace, path: try JSONPath(argument: path))
        return try await client.call(ConfigDiff.self, parameters)
    }

    /// Goes back to the content of a snapshot of the history, under a new revision.
    ///
    /// ```swift
    /// let change = try await client.config.rollback(to: 40)
    /// if change.held { print("what the source says now is not shown") }
    /// ```
    ///
    /// Where the sources say something else now, that is held back until ``releaseRollback(namespace:)``, a forced refresh
    /// or push, or with ``ConfigRollback/Hold/untilNewer`` a newer document than the refused one.
    /// - Parameter hold: nil for `untilNewer` if the versions of the source can be ordered, else `untilReleased`.
    /// - Throws: `remote` with `notFound` where the revision is not known any more.
    @discardableResult
    public func rollback(
        to revision: Int, hold: ConfigRollback.Hold? = nil, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigRollback.Result {
        try await client.call(
            ConfigRollback.self, ConfigRollback.Parameters(.goBack(to: revision, hold: hold), namespace: namespace))
    }

    /// Keeps a snapshot in the history until it is unpinned, whatever its age and however many are newer.
    ///
    /// ```swift
    /// try await client.config.pin(revision: 40)
    /// ```
    /// - Throws: `remote` with `notFound` if the revision is not known any more, or with `rejected` if the pinned ones would take
    ///   more than half of `history.maximumBytes` in the settings.
    @discardableResult
    public func pin(
        revision: Int, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigPin.Result {
        try await client.call(ConfigPin.self, ConfigPin.Parameters(revision: revision, namespace: namespace))
    }

    /// Lets the limits of the settings apply to a pinned snapshot again.
    @discardableResult
    public func unpin(
        revision: Int, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigPin.Result {
        try await client.call(
            ConfigPin.self, ConfigPin.Parameters(revision: revision, pinned: false, namespace: namespace))
    }

    /// A snapshot with all its layers, as a file of the state directory: what `larder backup` saves.
    ///
    /// ```swift
    /// let current = try await client.config.backup()
    /// for revision in current.revisions.dropFirst() {
    ///     print(try await client.config.backup(revision: revision).generation?.utf8.count ?? 0)
    /// }
    /// ```
    /// - Parameter revision: one of the history; nil for the current one.
    /// - Throws: `remote` with `notFound` if the revision is not known any more.
    public func backup(
        revision: Int? = nil, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigBackup.Result {
        try await client.call(ConfigBackup.self, ConfigBackup.Parameters(revision: revision, namespace: namespace))
    }

    /// Shows what the sources say again, after a rollback.
    @discardableResult
    public func releaseRollback(
        namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigRollback.Result {
        try await client.call(ConfigRollback.self, ConfigRollback.Parameters(.release, namespace: namespace))
    }
}
