public import LarderJSON

/// The calls of ``ConfigClient`` that typed values, updates, view models and repositories use. A type of a test that
/// conforms to this protocol replaces the agent. The article "Testing" has a complete one and its rules; this one has
/// values that never change.
///
/// ```swift
/// struct FixedConfig: ConfigCalls {
///     let namespace = "default"
///     let document: JSONValue
///     let change = ConfigChange(revision: 1, epoch: "test")
///
///     func snapshot(
///         at path: String, maximumAge: Duration?, staleIfError: Duration?
///     ) async throws(LarderClientError) -> LarderSnapshot {
///         let value = try? document.value(at: JSONPath(parsing: path))
///         return LarderSnapshot(value: value, revision: 1, epoch: "test", state: .fresh)
///     }
///     func snapshots(at path: String, mode: LarderSnapshots.Mode) -> LarderSnapshots {
///         LarderSnapshots(AsyncStream { $0.finish() })
///     }
///     func set(
///         _ value: JSONValue, at path: String, ttl: Duration?
///     ) async throws(LarderClientError) -> ConfigChange { change }
///     func apply(
///         _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
///     ) async throws(LarderClientError) -> ConfigChange? { change }
///     func unset(at path: String) async throws(LarderClientError) -> ConfigChange { change }
///     func unsetAll() async throws(LarderClientError) -> ConfigChange { change }
///     func refresh(force: Bool, timeout: Duration?) async throws(LarderClientError) -> ConfigChange { change }
/// }
/// ```
public protocol ConfigCalls: Sendable {
    /// The name of the namespace.
    var namespace: String { get }
    /// The clock that measures the age of the copies of a repository. The default is the continuous clock.
    var clock: any Clock<Duration> { get }
    /// Reads the value at a path; see ``ConfigClient/snapshot(at:maximumAge:staleIfError:)``. A snapshot without a value
    /// means the same as the error `notFound`.
    func snapshot(
        at path: String, maximumAge: Duration?, staleIfError: Duration?
    ) async throws(LarderClientError) -> LarderSnapshot
    /// Returns a stream of the values at a path; see ``ConfigClient/snapshots(at:mode:)``.
    func snapshots(at path: String, mode: LarderSnapshots.Mode) -> LarderSnapshots
    /// Sets an override; see ``ConfigClient/set(_:at:ttl:)``.
    @discardableResult func set(
        _ value: JSONValue, at path: String, ttl: Duration?
    ) async throws(LarderClientError) -> ConfigChange
    /// Makes several changes as one; see ``ConfigClient/apply(_:ifRevision:reason:dryRun:)``.
    @discardableResult func apply(
        _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
    ) async throws(LarderClientError) -> ConfigChange?
    /// Removes the overrides at and below a path; see ``ConfigClient/unset(at:)``.
    @discardableResult func unset(at path: String) async throws(LarderClientError) -> ConfigChange
    /// Removes all overrides; see ``ConfigClient/unsetAll()``.
    @discardableResult func unsetAll() async throws(LarderClientError) -> ConfigChange
    /// Polls the source; see ``ConfigClient/refresh(force:timeout:)``.
    @discardableResult func refresh(
        force: Bool, timeout: Duration?
    ) async throws(LarderClientError) -> ConfigChange
}

extension ConfigCalls {
    /// The continuous clock.
    public var clock: any Clock<Duration> { ContinuousClock() }
}

/// The calls of the protocol without the arguments that have defaults in ``ConfigClient``. A protocol cannot declare
/// defaults.
///
/// ```swift
/// struct Service {
///     let config: any ConfigCalls
///
///     func open() async throws {
///         let hosts = try await config.snapshot(at: "search.hosts")
///         try await config.apply { $0.set(true, at: "search.open", ifValue: .absent) }
///         print(hosts.revision)
///     }
/// }
/// ```
extension ConfigCalls {
    /// Reads the value at a path; see ``ConfigClient/snapshot(at:maximumAge:staleIfError:)``.
    public func snapshot(
        at path: String = "", maximumAge: Duration? = nil
    ) async throws(LarderClientError) -> LarderSnapshot {
        try await snapshot(at: path, maximumAge: maximumAge, staleIfError: nil)
    }

    /// Returns a stream of the values at a path; see ``ConfigClient/snapshots(at:mode:)``.
    public func snapshots(at path: String = "") -> LarderSnapshots { snapshots(at: path, mode: .snapshot) }

    /// Sets an override that does not expire; see ``ConfigClient/set(_:at:ttl:)``.
    @discardableResult
    public func set(_ value: JSONValue, at path: String) async throws(LarderClientError) -> ConfigChange {
        try await set(value, at: path, ttl: nil)
    }

    /// Makes several changes as one; see ``ConfigClient/apply(ifRevision:reason:dryRun:_:)``.
    @discardableResult
    public func apply(
        ifRevision: RevisionCondition = .any, reason: String? = nil, dryRun: Bool = false,
        _ build: (inout ConfigChangeList) -> Void
    ) async throws(LarderClientError) -> ConfigChange? {
        var list = ConfigChangeList()
        build(&list)
        return try await apply(list, ifRevision: ifRevision, reason: reason, dryRun: dryRun)
    }

    /// Polls the source; see ``ConfigClient/refresh(force:timeout:)``.
    @discardableResult
    public func refresh(force: Bool = false) async throws(LarderClientError) -> ConfigChange {
        try await refresh(force: force, timeout: nil)
    }
}

extension ConfigClient: ConfigCalls {
    /// The clock of the client.
    public var clock: any Clock<Duration> { client.configuration.clock }
}
