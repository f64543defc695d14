import LarderJSON
import LarderProtocol

/// Methods for layers, history and rollback. `larder backup` saves the state of the agent.
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
    public func explain(
        at path: String = ""
    ) async throws(LarderClientError) -> ConfigExplanation {
        let parameters = ConfigExplain.Parameters(path: try JSONPath(argument: path), namespace: namespace)
        return ConfigExplanation(try await client.call(ConfigExplain.self, parameters))
    }

    /// Returns the retained snapshots, newest first, with the changes that caused each of them.
    ///
    /// ```swift
    /// for generation in try await client.config.history(limit: 5) {
    ///     print(generation.revision, generation.publishedAt, generation.causes.map(\.kind))
    /// }
    /// ```
    /// - Parameters:
    ///   - limit: the maximum number of snapshots; nil for all that the agent retains.
    public func history(
        limit: Int? = nil
    ) async throws(LarderClientError) -> [ConfigGeneration] {
        let parameters = ConfigHistory.Parameters(namespace: namespace, limit: limit)
        let result = try await client.call(ConfigHistory.self, parameters)
        return result.generations.map { ConfigGeneration($0, epoch: result.epoch) }
    }

    /// Returns the differences between two snapshots of the history. If a path has objects in both, their members are
    /// listed individually.
    ///
    /// ```swift
    /// for difference in try await client.config.diff(from: 40) {
    ///     print(difference.path, difference.old ?? "none", difference.new ?? "none")
    /// }
    /// ```
    /// - Parameters:
    ///   - from: the revision to compare from.
    ///   - to: the revision to compare with; nil for the current one.
    ///   - path: the path of the values that are compared; empty for the whole document.
    /// - Throws: `remote` with `notFound` if the history no longer has one of the revisions.
    public func diff(
        from: Int, to: Int? = nil, at path: String = ""
    ) async throws(LarderClientError) -> [ConfigDifference] {
        let parameters = ConfigDiff.Parameters(
            from: from, to: to, namespace: namespace, path: try JSONPath(argument: path))
        return try await client.call(ConfigDiff.self, parameters).changes.map(ConfigDifference.init)
    }

    /// Rolls back to a snapshot of the history. Its content is published under a new revision.
    ///
    /// ```swift
    /// let change = try await client.config.rollback(to: 40)
    /// if change.hold != nil { print("newer content of the source is held back") }
    /// ```
    ///
    /// If the current content of the sources differs from the snapshot, the agent holds that content back: it does not
    /// take effect. The hold ends with ``releaseRollback()``, or with a forced refresh or push. With
    /// ``RollbackHold/untilNewer`` it also ends when the remote source has a document that is newer than the one
    /// held back.
    /// - Parameters:
    ///   - revision: the revision to roll back to.
    ///   - hold: when the hold ends. Nil means `untilNewer` if only the remote layer is held back and its versions can
    ///     be ordered, else `untilReleased`.
    /// - Throws: `remote` with `notFound` if the history no longer has the revision.
    @discardableResult
    public func rollback(
        to revision: Int, hold: RollbackHold? = nil
    ) async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigRollback.Parameters(.goBack(to: revision, hold: hold?.wire), namespace: namespace)
        return ConfigChange(try await client.call(ConfigRollback.self, parameters))
    }

    /// Pins a snapshot: it stays in the history until it is unpinned, regardless of the limits of the history for the
    /// age and number of snapshots.
    ///
    /// ```swift
    /// try await client.config.pin(revision: 40)
    /// ```
    /// - Parameters:
    ///   - revision: a revision of the history.
    /// - Throws: `remote` with `notFound` if the history no longer has the revision, or with `rejected` if the pinned
    ///   snapshots would take more than half of `history.maximumBytes` in the settings.
    @discardableResult
    public func pin(
        revision: Int
    ) async throws(LarderClientError) -> ConfigChange {
        try await setPin(ConfigPin.Parameters(revision: revision, namespace: namespace))
    }

    private func setPin(_ parameters: ConfigPin.Parameters) async throws(LarderClientError) -> ConfigChange {
        let result = try await client.call(ConfigPin.self, parameters)
        return ConfigChange(revision: result.revision, epoch: result.epoch, hasEffect: result.changed)
    }

    /// Unpins a snapshot, so that the limits of the history apply to it again.
    ///
    /// ```swift
    /// try await client.config.unpin(revision: 40)
    /// ```
    /// - Parameters:
    ///   - revision: a revision of the history.
    /// - Throws: `remote` with `notFound` if the history does not have the revision.
    @discardableResult
    public func unpin(
        revision: Int
    ) async throws(LarderClientError) -> ConfigChange {
        try await setPin(ConfigPin.Parameters(revision: revision, pinned: false, namespace: namespace))
    }

    /// Ends the hold of a rollback and publishes the current content of the sources. Does nothing without a hold.
    ///
    /// ```swift
    /// try await client.config.releaseRollback()
    /// ```
    /// - Returns: the current revision. ``ConfigChange/hasEffect`` is whether a hold was ended.
    @discardableResult
    public func releaseRollback() async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigRollback.Parameters(.release, namespace: namespace)
        return ConfigChange(try await client.call(ConfigRollback.self, parameters))
    }
}
