public import LarderProtocol

/// Methods for layers, history, rollback and backup.
extension ConfigClient {
    /// Returns the value that each layer has at a path, the source of each value, and the layer whose value takes
    /// effect.
    ///
    /// ```swift
    /// let explanation = try await client.config.explain(at: "search.limit")
    /// print(explanation.winner ?? "none", explanation.layers.last?.value ?? .null)
    /// ```
    ///
    /// Values that the settings declare secret are returned as `"<masked>"` unless this process has the right
    /// `secrets`.
    /// - Parameters:
    ///   - path: the path; empty for the whole document.
    ///   - namespace: the name of the namespace.
    public func explain(
        at path: String = "", namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigExplain.Result {
        let parameters = ConfigExplain.Parameters(path: try JSONPath(argument: path), namespace: namespace)
        return try await client.call(ConfigExplain.self, parameters)
    }

    /// Returns the retained snapshots, newest first, with the changes that caused each of them.
    ///
    /// ```swift
    /// for generation in try await client.config.history(limit: 5).generations {
    ///     print(generation.revision, generation.publishedAt, generation.causes.map(\.kind))
    /// }
    /// ```
    /// - Parameters:
    ///   - limit: the maximum number of snapshots; nil for all that the agent retains.
    ///   - namespace: the name of the namespace.
    public func history(
        limit: Int? = nil, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigHistory.Result {
        try await client.call(ConfigHistory.self, ConfigHistory.Parameters(namespace: namespace, limit: limit))
    }

    /// Returns the differences between two snapshots of the history.
    ///
    /// ```swift
    /// let difference = try await client.config.diff(from: 40)
    /// for change in difference.changes { print(change.kind, change.path) }
    /// ```
    /// - Parameters:
    ///   - from: the revision to compare from.
    ///   - to: the revision to compare with; nil for the current one.
    ///   - path: the path of the values that are compared; empty for the whole document.
    ///   - namespace: the name of the namespace.
    /// - Throws: `remote` with `notFound` if the history no longer has one of the revisions.
    public func diff(
        from: Int, to: Int? = nil, at path: String = "", namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigDiff.Result {
        let parameters = ConfigDiff.Parameters(
            from: from, to: to, namespace: namespace, path: try JSONPath(argument: path))
        return try await client.call(ConfigDiff.self, parameters)
    }

    /// Rolls back to a snapshot of the history. Its content is published under a new revision.
    ///
    /// ```swift
    /// let change = try await client.config.rollback(to: 40)
    /// if change.held { print("newer content of the source is held back") }
    /// ```
    ///
    /// If the current content of the sources differs from the snapshot, the agent holds that content back: it does not
    /// take effect. The hold ends with ``releaseRollback(namespace:)``, or with a forced refresh or push. With
    /// ``ConfigRollback/Hold/untilNewer`` it also ends when the remote source has a document that is newer than the one
    /// held back.
    /// - Parameters:
    ///   - revision: the revision to roll back to.
    ///   - hold: when the hold ends. Nil means `untilNewer` if only the remote layer is held back and its versions can
    ///     be ordered, else `untilReleased`.
    ///   - namespace: the name of the namespace.
    /// - Throws: `remote` with `notFound` if the history no longer has the revision.
    @discardableResult
    public func rollback(
        to revision: Int, hold: ConfigRollback.Hold? = nil, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigRollback.Result {
        try await client.call(
            ConfigRollback.self, ConfigRollback.Parameters(.goBack(to: revision, hold: hold), namespace: namespace))
    }

    /// Pins a snapshot: it stays in the history until it is unpinned, regardless of the limits of the history for the
    /// age and number of snapshots.
    ///
    /// ```swift
    /// try await client.config.pin(revision: 40)
    /// ```
    /// - Parameters:
    ///   - revision: a revision of the history.
    ///   - namespace: the name of the namespace.
    /// - Throws: `remote` with `notFound` if the history no longer has the revision, or with `rejected` if the pinned
    ///   snapshots would take more than half of `history.maximumBytes` in the settings.
    @discardableResult
    public func pin(
        revision: Int, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigPin.Result {
        try await client.call(ConfigPin.self, ConfigPin.Parameters(revision: revision, namespace: namespace))
    }

    /// Unpins a snapshot, so that the limits of the history apply to it again.
    ///
    /// ```swift
    /// try await client.config.unpin(revision: 40)
    /// ```
    /// - Parameters:
    ///   - revision: a revision of the history.
    ///   - namespace: the name of the namespace.
    /// - Throws: `remote` with `notFound` if the history does not have the revision.
    @discardableResult
    public func unpin(
        revision: Int, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigPin.Result {
        try await client.call(
            ConfigPin.self, ConfigPin.Parameters(revision: revision, pinned: false, namespace: namespace))
    }

    /// Returns a snapshot with all its layers, in the format in which the agent stores snapshots in its state directory
    /// (a generation file). `larder backup` saves this text. It contains secret values.
    ///
    /// Needs the right `administer`, and the rights `read` and `secrets` in the namespace.
    ///
    /// ```swift
    /// let current = try await client.config.backup()
    /// for revision in current.revisions.dropFirst() {
    ///     print(try await client.config.backup(revision: revision).generation?.utf8.count ?? 0)
    /// }
    /// ```
    /// - Parameters:
    ///   - revision: a revision of the history; nil for the current one.
    ///   - namespace: the name of the namespace.
    /// - Throws: `remote` with `notFound` if the history no longer has the revision.
    public func backup(
        revision: Int? = nil, namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigBackup.Result {
        try await client.call(ConfigBackup.self, ConfigBackup.Parameters(revision: revision, namespace: namespace))
    }

    /// Ends the hold of a rollback and publishes the current content of the sources. Does nothing without a hold.
    ///
    /// ```swift
    /// try await client.config.releaseRollback()
    /// ```
    /// - Returns: the current revision, and whether a hold was ended.
    @discardableResult
    public func releaseRollback(
        namespace: String = defaultNamespace
    ) async throws(LarderClientError) -> ConfigRollback.Result {
        try await client.call(ConfigRollback.self, ConfigRollback.Parameters(.release, namespace: namespace))
    }
}
