public import LarderJSON
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
    ///   - limit: the maximum number of snapshots, from 1 to 10,000; nil for all that the agent retains.
    public func history(
        limit: Int? = nil
    ) async throws(LarderClientError) -> [ConfigGeneration] {
        try CallArguments.check(
            limit, "limit", in: 1...ConfigHistory.Parameters.maxLimit,
            advice: "pass nil for all snapshots that the agent retains")
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
        try CallArguments.check(revision: from, "from")
        try CallArguments.check(revision: to, "to")
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
        try CallArguments.check(revision: revision)
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
        try CallArguments.check(revision: parameters.revision)
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

/// The value at a path in each layer; see ``ConfigClient/explain(at:)``.
public struct ConfigExplanation: Sendable, Equatable {
    /// The effect of one layer at the path.
    public struct Layer: Sendable, Equatable {
        /// `defaults`, `host`, `remote`, `experiment` or `override`.
        public let name: String
        /// The value of the layer at the path; nil if it has none. Secrets that this process may not see are
        /// `"<masked>"`.
        public let value: JSONValue?
        /// Whether the layer has no value at the path, but hides the values of lower layers.
        public let isHiding: Bool
        /// The URL, directory or file that the value comes from; nil for other sources, and without a value.
        public let origin: String?
        /// The file that defines the value; nil if the value does not come from a file.
        public let file: String?
        /// The line in that file, counted from 1.
        public let line: Int?
        /// The name of the process that set or pushed the value; nil if no process did.
        public let command: String?
        /// Why that process set or pushed the value; nil if it gave no reason.
        public let reason: String?
        /// When the override expires; nil if it does not expire.
        public let expiresAt: LarderTime?
        /// When the effect of the layer at the path began; nil without an effect, and if the time is unknown.
        public let since: LarderTime?

        /// Creates a layer from its properties, for example for tests.
        public init(
            name: String, value: JSONValue? = nil, isHiding: Bool = false, origin: String? = nil, file: String? = nil,
            line: Int? = nil, command: String? = nil, reason: String? = nil, expiresAt: LarderTime? = nil,
            since: LarderTime? = nil
        ) {
            self.name = name
            self.value = value
            self.isHiding = isHiding
            self.origin = origin
            self.file = file
            self.line = line
            self.command = command
            self.reason = reason
            self.expiresAt = expiresAt
            self.since = since
        }

        init(_ wire: ConfigExplain.Layer) {
            (name, value, isHiding) = (wire.name, wire.value, wire.isHiding)
            (origin, file, line) = (wire.source?.location, wire.source?.file, wire.source?.line)
            (command, reason) = (wire.source?.peer?.command, wire.source?.reason)
            expiresAt = wire.source?.expiresAt.map(LarderTime.init)
            since = wire.since.map { LarderTime($0.at) }
        }
    }

    /// The revision of the snapshot that is explained.
    public let revision: Int
    /// The epoch of the revision.
    public let epoch: String
    /// The value in that snapshot; nil for none.
    public let value: JSONValue?
    /// The name of the layer whose value takes effect; nil if no layer has a value.
    public let winner: String?
    /// Whether the settings lock the path, so that it cannot be changed.
    public let isLocked: Bool
    /// All layers, lowest precedence first.
    public let layers: [Layer]

    /// Creates an explanation from its properties, for example for tests.
    public init(
        revision: Int, epoch: String, value: JSONValue? = nil, winner: String? = nil, isLocked: Bool = false,
        layers: [Layer] = []
    ) {
        self.revision = revision
        self.epoch = epoch
        self.value = value
        self.winner = winner
        self.isLocked = isLocked
        self.layers = layers
    }

    init(_ wire: ConfigExplain.Result) {
        (revision, epoch, value, winner) = (wire.revision, wire.epoch, wire.value, wire.winner)
        (isLocked, layers) = (wire.lock != nil, wire.layers.map(Layer.init))
    }
}

/// A snapshot of the history; see ``ConfigClient/history(limit:)``.
public struct ConfigGeneration: Sendable, Equatable {
    /// A change that caused the snapshot to be published.
    public struct Cause: Sendable, Equatable {
        /// The kind of change, such as `set`, `refresh` or `rollback`. Newer agents may send other kinds.
        public let kind: String
        /// The path that was changed; nil if it is unknown, and for other kinds.
        public let path: String?
        /// The name of the process that requested the change; nil if no process did.
        public let command: String?
        /// Why the change was requested; nil if no reason was given.
        public let reason: String?

        /// Creates a cause from its properties, for example for tests.
        public init(kind: String, path: String? = nil, command: String? = nil, reason: String? = nil) {
            self.kind = kind
            self.path = path
            self.command = command
            self.reason = reason
        }

        init(_ wire: ConfigHistory.Cause) {
            (kind, path, command, reason) = (wire.kind, wire.path, wire.peer?.command, wire.reason)
        }
    }

    /// The revision of the snapshot.
    public let revision: Int
    /// The epoch of the revision.
    public let epoch: String
    /// When the snapshot was published.
    public let publishedAt: LarderTime
    /// Whether this is the current snapshot.
    public let isCurrent: Bool
    /// Whether the snapshot is kept until it is unpinned.
    public let isPinned: Bool
    /// The changes that caused the snapshot to be published, in order; empty if they are unknown.
    public let causes: [Cause]

    /// Creates a snapshot of the history from its properties, for example for tests.
    public init(
        revision: Int, epoch: String, publishedAt: LarderTime, isCurrent: Bool = false, isPinned: Bool = false,
        causes: [Cause] = []
    ) {
        self.revision = revision
        self.epoch = epoch
        self.publishedAt = publishedAt
        self.isCurrent = isCurrent
        self.isPinned = isPinned
        self.causes = causes
    }

    init(_ wire: ConfigHistory.Generation, epoch: String) {
        (revision, self.epoch, publishedAt) = (wire.revision, epoch, LarderTime(wire.publishedAt))
        (isCurrent, isPinned, causes) = (wire.current, wire.isPinned, wire.causes.map(Cause.init))
    }
}
