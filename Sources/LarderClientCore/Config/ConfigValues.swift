import LarderEncoding
public import LarderJSON
package import LarderProtocol

/// A point in time, in whole milliseconds.
///
/// `import LarderClient` adds the property `date`.
public struct LarderTime: Sendable, Hashable, Comparable, CustomStringConvertible {
    package let wire: Timestamp

    package init(_ wire: Timestamp) { self.wire = wire }

    /// Creates a time from the duration since 1970-01-01T00:00:00Z, rounded up to whole milliseconds.
    public init(since1970 duration: Duration) { wire = Timestamp(milliseconds: duration.milliseconds) }

    /// The duration since 1970-01-01T00:00:00Z, without leap seconds.
    public var since1970: Duration { .milliseconds(wire.milliseconds) }

    /// Whether `left` is earlier than `right`.
    public static func < (left: Self, right: Self) -> Bool { left.wire < right.wire }

    /// The time in RFC 3339 format, in UTC with milliseconds, such as `2026-11-21T10:15:00.250Z`.
    public var description: String { wire.description }
}

/// A permission that the settings of the agent grant to a process. Values that this version does not know are kept as
/// received.
public struct LarderRight: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The name of the right in the settings.
    public let rawValue: String
    /// Creates a right from its name in the settings.
    public init(rawValue: String) { self.rawValue = rawValue }

    package init(_ wire: Right) { rawValue = wire.rawValue }

    /// Read the configuration and its provenance.
    public static let read = Self(.read)
    /// Set and remove overrides.
    public static let write = Self(.write)
    /// Replace the remote layer, force a refresh, and (together with `images`) store images.
    public static let push = Self(.push)
    /// Perform operations that affect all clients, such as rollbacks, pins and removals of images.
    public static let administer = Self(.administer)
    /// See the values that the settings declare secret, which are masked for other processes.
    public static let secrets = Self(.secrets)
    /// Get images.
    public static let images = Self(.images)
    /// See the statistics of the agent and the status of all namespaces, without their values.
    public static let monitor = Self(.monitor)

    /// The same as ``rawValue``.
    public var description: String { rawValue }
}

/// The resolved value that must be at a path when a change is made. Otherwise the change fails with
/// ``RemoteError/Code/conflict``.
public enum ValueCondition: Sendable, Equatable {
    /// Any value, or none.
    case any
    /// No value.
    case absent
    /// A value that equals this one. The order of members does not count; the text of numbers does, so 1.0 does not
    /// equal 1.
    case equals(JSONValue)

    init(_ wire: WireValueCondition) {
        self =
            switch wire {
            case .any: .any
            case .absent: .absent
            case .equals(let value): .equals(value)
            }
    }

    package var wire: WireValueCondition {
        switch self {
        case .any: .any
        case .absent: .absent
        case .equals(let value): .equals(value)
        }
    }
}

/// The revision that must be current when a change is made. Otherwise the change fails with
/// ``RemoteError/Code/conflict``.
///
/// ```swift
/// try await client.config.apply(ifRevision: .equals(41)) { $0.set(25, at: "search.limit") }
/// ```
public enum RevisionCondition: Sendable, Equatable {
    /// Any revision.
    case any
    /// This revision. With an epoch, also the epoch must be the current one.
    case equals(Int, epoch: String? = nil)

    /// The revision of a snapshot.
    ///
    /// ```swift
    /// let snapshot = try await client.config.snapshot(at: "search")
    /// try await client.config.apply(ifRevision: .equals(snapshot)) { $0.set(25, at: "search.limit") }
    /// ```
    public static func equals(_ snapshot: LarderSnapshot) -> Self { .equals(snapshot.revision, epoch: snapshot.epoch) }

    package var wire: WireRevisionCondition {
        switch self {
        case .any: WireRevisionCondition()
        case .equals(let revision, let epoch): WireRevisionCondition(revision, epoch: epoch)
        }
    }
}

/// The condition of ``ConfigClient/wait(for:at:timeout:)``.
public enum WaitCondition: Sendable, Equatable {
    /// The value at the path equals this value.
    case equals(JSONValue)
    /// The value at the path differs from this value, or there is no value.
    case notEquals(JSONValue)
    /// There is a value at the path (true), or there is no value (false).
    case exists(Bool)
    /// The snapshot has this revision or a newer one. Nil as the epoch means the current epoch.
    case revisionAtLeast(Int, epoch: String? = nil)

    package var wire: ConfigWait.Condition {
        switch self {
        case .equals(let value): .equals(value)
        case .notEquals(let value): .notEquals(value)
        case .exists(let exists): .exists(exists)
        case .revisionAtLeast(let revision, let epoch): .revisionAtLeast(revision, epoch: epoch)
        }
    }
}

/// The result of a change of the configuration. All changes have ``revision``, ``epoch`` and ``hasEffect``. The other
/// members are nil except for these calls:
///
/// | Member | Call |
/// | --- | --- |
/// | ``expiresAt`` | `set` and `replaceAll` with a `ttl` |
/// | ``hold`` | `rollback`, if newer content is held back |
/// | ``differences`` | `apply` with `dryRun` |
/// | ``violations`` | `apply` with `dryRun`, if the schema would reject the change |
public struct ConfigChange: Sendable, Equatable {
    /// The first revision that contains the change; the current one if nothing changed, and for a dry run.
    public var revision: Int
    /// The epoch of the revision.
    public var epoch: String
    /// Whether the change altered the resolved configuration, so that a new snapshot was published. For a dry run, whether
    /// the change would do so. For a pin, whether the snapshot was not pinned before, and for the release of a rollback,
    /// whether there was a hold.
    public var hasEffect: Bool
    /// When the override that was set expires; nil if it does not expire, and for other changes.
    public var expiresAt: LarderTime?
    /// When the hold of a rollback ends; nil if the change is no rollback, or if it holds nothing back.
    public var hold: RollbackHold?
    /// The differences that the change would make; nil unless it was a dry run. Values that this process may not see
    /// are `"<masked>"`.
    public var differences: [ConfigDifference]?
    /// The violations of the schema that the dry run found, the most specific first; nil if there are none. Empty if
    /// this process lacks the right `read`.
    public var violations: [ConfigViolation]?

    /// Creates a result from its properties, for example for tests.
    public init(
        revision: Int, epoch: String, hasEffect: Bool = true, expiresAt: LarderTime? = nil, hold: RollbackHold? = nil,
        differences: [ConfigDifference]? = nil, violations: [ConfigViolation]? = nil
    ) {
        self.revision = revision
        self.epoch = epoch
        self.hasEffect = hasEffect
        self.expiresAt = expiresAt
        self.hold = hold
        self.differences = differences
        self.violations = violations
    }

    package init(_ wire: WireConfigChange) {
        self.init(
            revision: wire.revision, epoch: wire.epoch, hasEffect: wire.changed,
            expiresAt: wire.expiresAt.map(LarderTime.init), differences: wire.changes?.map(ConfigDifference.init),
            violations: wire.schemaErrors?.map(ConfigViolation.init))
    }

    init(_ wire: ConfigRollback.Result) {
        self.init(
            revision: wire.revision, epoch: wire.epoch, hasEffect: wire.changed || wire.released,
            hold: wire.held ? wire.hold.map(RollbackHold.init) ?? .untilReleased : nil)
    }
}

/// When the hold of a rollback ends. A release, a forced refresh and a forced push end every hold.
public enum RollbackHold: Sendable, Hashable {
    /// When the source has a document that is newer than the one held back.
    case untilNewer
    /// Only with ``ConfigClient/releaseRollback()``, a forced refresh or a forced push.
    case untilReleased

    init(_ wire: ConfigRollback.Hold) { self = wire == .untilNewer ? .untilNewer : .untilReleased }

    var wire: ConfigRollback.Hold { self == .untilNewer ? .untilNewer : .untilReleased }
}

/// A difference between two snapshots at one path.
public struct ConfigDifference: Sendable, Equatable {
    /// The path in the document.
    public let path: JSONPath
    /// The value in the old snapshot; nil for none.
    public let old: JSONValue?
    /// The value in the new snapshot; nil for none.
    public let new: JSONValue?

    /// Creates a difference from its properties, for example for tests.
    public init(path: JSONPath, old: JSONValue? = nil, new: JSONValue? = nil) {
        self.path = path
        self.old = old
        self.new = new
    }

    init(_ wire: ConfigDiff.Change) { (path, old, new) = (JSONPath(wire.path), wire.old, wire.new) }
}

/// A violation of the schema of a namespace.
public struct ConfigViolation: Sendable, Hashable {
    /// The path of the value that violates the schema.
    public let path: JSONPath
    /// The expected and the actual value, in words.
    public let message: String
    /// The location of the violated keyword: a JSON Pointer after `#`, and before it the URI of the document if that is
    /// not the schema itself.
    public let schemaLocation: String
    /// The violated keyword of JSON Schema.
    public let keyword: String
    /// The highest layer with a value at the path; nil if no layer has one.
    public let layer: String?
    /// The file, directory or URL that the value comes from; nil if the value was set or pushed, or if unknown.
    public let origin: String?
    /// The line of the value in the file, counted from 1; nil if unknown.
    public let line: Int?

    /// Creates a violation from its properties, for example for tests.
    public init(
        path: JSONPath, message: String, schemaLocation: String = "#", keyword: String, layer: String? = nil,
        origin: String? = nil, line: Int? = nil
    ) {
        self.path = path
        self.message = message
        self.schemaLocation = schemaLocation
        self.keyword = keyword
        self.layer = layer
        self.origin = origin
        self.line = line
    }

    init(_ wire: SchemaError) {
        (path, message, schemaLocation) = (JSONPath(wire.path), wire.message, wire.schemaPath)
        (keyword, layer, origin, line) = (wire.keyword, wire.layer, wire.location, wire.line)
    }

    package var wire: SchemaError {
        SchemaError(
            path: path.segments, schemaPath: schemaLocation, keyword: keyword, message: message, layer: layer,
            location: origin, line: line)
    }
}

/// The status of a namespace; see ``ConfigClient/status()``.
public struct NamespaceStatus: Sendable, Equatable {
    /// A failure.
    public struct Problem: Sendable, Equatable {
        /// A description of the failure, for people.
        public let message: String
        /// When it happened.
        public let time: LarderTime

        /// Creates a failure from its properties, for example for tests.
        public init(message: String, time: LarderTime) {
            self.message = message
            self.time = time
        }

        init(_ wire: ConfigStatus.Problem) { (message, time) = (wire.message, LarderTime(wire.at)) }
        init(_ wire: ConfigStatus.Rejection) { (message, time) = (wire.reason, LarderTime(wire.at)) }
    }

    /// The remote source.
    public struct Source: Sendable, Equatable {
        /// `http`, `sse`, `etcd` or `file`. Newer agents may send other kinds.
        public let kind: String
        /// A URL without user information, or a path.
        public let location: String
        /// The version of the document; nil if it has none.
        public let version: String?
        /// When the source last sent a usable response; nil if it has not since the agent started.
        public let lastSuccess: LarderTime?
        /// When the agent will poll the source next; nil if it is not scheduled.
        public let nextAttempt: LarderTime?
        /// The number of failures since the last usable response.
        public let consecutiveFailures: Int

        /// Creates a source from its properties, for example for tests.
        public init(
            kind: String, location: String, version: String? = nil, lastSuccess: LarderTime? = nil,
            nextAttempt: LarderTime? = nil, consecutiveFailures: Int = 0
        ) {
            self.kind = kind
            self.location = location
            self.version = version
            self.lastSuccess = lastSuccess
            self.nextAttempt = nextAttempt
            self.consecutiveFailures = consecutiveFailures
        }

        init(_ wire: ConfigStatus.Upstream) {
            (kind, location, version) = (wire.kind, wire.location, wire.version)
            (lastSuccess, nextAttempt) = (
                wire.lastSuccessAt.map(LarderTime.init), wire.nextAttemptAt.map(LarderTime.init)
            )
            consecutiveFailures = wire.consecutiveFailures
        }
    }

    /// The name of the namespace.
    public let name: String
    /// The state of the namespace.
    public let state: LarderSnapshot.State
    /// When the namespace entered this state.
    public let since: LarderTime
    /// The newest revision; 0 if nothing has been published.
    public let revision: Int
    /// The epoch of the revision.
    public let epoch: String
    /// When the current snapshot was published; nil at revision 0.
    public let publishedAt: LarderTime?
    /// The time since the last usable response of the source; nil without a source, and before its first usable
    /// response since the agent started.
    public let age: Duration?
    /// The last failure of a refresh or of a write to disk; nil once both succeed again.
    public let lastError: Problem?
    /// The last document that was rejected; nil once another one is accepted.
    public let rejection: Problem?
    /// The remote source; nil if the settings declare none.
    public let source: Source?
    /// The number of connected clients that use each revision; see ``ConfigClient/acknowledge(_:accepted:reason:)``.
    public let acknowledgements: [Int: Int]
    /// The number of connected clients that reject the snapshot that they acknowledged last.
    public let rejectingClients: Int

    /// Creates a status from its properties, for example for tests.
    public init(
        name: String, state: LarderSnapshot.State, since: LarderTime, revision: Int, epoch: String,
        publishedAt: LarderTime? = nil, age: Duration? = nil, lastError: Problem? = nil, rejection: Problem? = nil,
        source: Source? = nil, acknowledgements: [Int: Int] = [:], rejectingClients: Int = 0
    ) {
        self.name = name
        self.state = state
        self.since = since
        self.revision = revision
        self.epoch = epoch
        self.publishedAt = publishedAt
        self.age = age
        self.lastError = lastError
        self.rejection = rejection
        self.source = source
        self.acknowledgements = acknowledgements
        self.rejectingClients = rejectingClients
    }

    init(_ wire: ConfigStatus.Namespace) {
        (name, state, since) = (wire.namespace, LarderSnapshot.State(wire.state), LarderTime(wire.since))
        (revision, epoch, publishedAt) = (wire.revision, wire.epoch, wire.publishedAt.map(LarderTime.init))
        (age, lastError) = (wire.ageMilliseconds.map { .milliseconds($0) }, wire.lastError.map(Problem.init))
        (rejection, source) = (wire.rejected.map(Problem.init), wire.upstream.map(Source.init))
        acknowledgements = wire.acknowledgements.accepted
        rejectingClients = wire.acknowledgements.rejections
    }
}
