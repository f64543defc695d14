import LarderEncoding
public import LarderJSON
import LarderProtocol

/// The `config.*` methods: reading, following and changing the configuration. Available as ``LarderClient/config``.
///
/// ```swift
/// try await client.config.set(25, at: "search.limit")
/// for try await snapshot in client.config.snapshots(at: "search") {
///     print(snapshot.revision, snapshot.value?["limit"]?.int ?? 10)
/// }
/// ```
///
/// A path is written with dots (`"search.limit"`) or, if it begins with `/`, as a JSON Pointer (RFC 6901). The empty
/// path is the whole document. `client.config` is the namespace `default`, and `client.config["shop"]` the namespace
/// `shop`, which the settings must declare:
///
/// ```swift
/// let shop = client.config["shop"]
/// try await shop.set(25, at: "cart.limit")
/// let cart = try await shop.snapshot(at: "cart")
/// ```
///
/// All methods throw ``LarderClientError``. An error that the agent returns has the code `remote`. Its
/// ``LarderClientError/remoteError`` is, for example, `unknownNamespace`, or `denied` if this process lacks the right
/// for the operation. A malformed path is the error `invalidArgument`.
///
/// Reading and refreshing need the right `read` in the namespace. Changing overrides needs `write`; comparing values
/// (`ifValue`, `require`, `update`) and incrementing them also need `read`. Pushing a document
/// and forced refreshes need `push`. Rollbacks, pins and backups need `administer`.
public struct ConfigClient: Sendable {
    package let client: LarderClient
    /// The name of the namespace.
    public let namespace: String

    /// The methods for another namespace.
    public subscript(namespace: String) -> ConfigClient { ConfigClient(client: client, namespace: namespace) }

    /// Reads the value at a path, with its revision and state.
    ///
    /// ```swift
    /// let snapshot = try await client.config.snapshot(at: "search")
    /// print(snapshot.revision, snapshot.state, snapshot.value?["limit"]?.int ?? 10)
    /// ```
    ///
    /// A value that may be missing is better read with `value(at:as:default:decoder:)` and a default or the type of an
    /// `Optional`, because this method throws `notFound` for it: the agent's reply then has no revision.
    /// - Parameters:
    ///   - path: the path; empty for the whole document.
    ///   - maximumAge: the maximum time since the remote source last confirmed the value. If more time has passed, the
    ///     agent first polls the source. Nil returns the current value at once.
    ///   - staleIfError: the maximum age that applies instead of `maximumAge` if the poll fails. If the source has
    ///     confirmed the value within this time, the value is returned and the failed poll is not an error. Nil makes
    ///     every failed poll an error.
    /// - Throws: `remote` with `notFound` if there is no value at the path, with `unavailable` while the remote source
    ///   has not delivered a document yet, or with `upstreamFailed` or `rejected` if a value within the maximum age
    ///   cannot be obtained; `invalidArgument` if an age is negative or longer than 3660 days.
    public func snapshot(
        at path: String = "", maximumAge: Duration? = nil,
        staleIfError: Duration? = nil
    ) async throws(LarderClientError) -> LarderSnapshot {
        try CallArguments.check(maximumAge, "maximumAge", .upToTenYears, advice: "pass nil for any age")
        try CallArguments.check(staleIfError, "staleIfError", .upToTenYears, advice: "pass nil for no second limit")
        let parameters = ConfigGet.Parameters(
            path: try JSONPath(argument: path), namespace: namespace, maximumAgeSeconds: maximumAge?.seconds,
            staleIfErrorSeconds: staleIfError?.seconds)
        let result = try await client.call(ConfigGet.self, parameters)
        return LarderSnapshot(
            value: result.value, revision: result.revision, epoch: result.epoch,
            state: LarderSnapshot.State(result.state), namespace: namespace
        ).named(path)
    }

    /// Returns a stream of the values at a path: the current snapshot, then each new one.
    ///
    /// ```swift
    /// for try await snapshot in client.config.snapshots(at: "search.limit") {
    ///     do {
    ///         try await server.setLimit(snapshot.decode(default: 10))
    ///     } catch {
    ///         print("the last good limit stays in use: \(error)")
    ///     }
    /// }
    /// ```
    ///
    /// The value need not exist. ``LarderSnapshots`` describes the guarantees of the stream.
    /// - Parameters:
    ///   - path: the path; empty for the whole document.
    ///   - mode: what the agent sends. With `.patch` it sends only the changes (RFC 7396), and the client applies them.
    ///     This saves traffic for large documents with small changes. With `.revision` the snapshots have no value.
    public func snapshots(
        at path: String = "", mode: LarderSnapshots.Mode = .snapshot
    ) -> LarderSnapshots {
        LarderSnapshots(
            SnapshotSubscription(
                client: client,
                path: Result { () throws(LarderClientError) in try JSONPath(argument: path) },
                text: path, namespace: namespace, mode: mode.wire))
    }

    /// Sets an override: a value above all other layers. It survives restarts of the agent.
    ///
    /// ```swift
    /// try await client.config.set(25, at: "search.limit")
    /// try await client.config.set(["a", "b"], at: "search.hosts", ttl: .seconds(600))
    /// ```
    ///
    /// ``replaceAll(with:ttl:)`` sets the whole document.
    ///
    /// The new override replaces those at its path and below: after `set(["limit": 25], at: "search")`, an earlier
    /// override at `search.hosts` no longer exists. Overrides above the path stay, and the new one refines them. If a value
    /// above the path is not an object, an object replaces it: `set(1, at: "search.limit.x")` replaces the number at
    /// `search.limit` by `{"x": 1}`.
    /// - Parameters:
    ///   - value: the value. An object is merged with the values of the lower layers (RFC 7396); null hides these
    ///     values.
    ///   - path: the path of an object member. It must not be empty.
    ///   - ttl: the time after which the override expires, in whole milliseconds, rounded up; nil for no expiry.
    /// - Returns: the revision that contains the change.
    /// - Throws: `invalidArgument` if the path is empty, the time to live is not positive or is longer than 3660 days, or
    ///   the value is or contains an infinity or NaN; `remote` with `invalidParams` if the path leads into an array, or with `denied` if the path is
    ///   locked in the settings.
    @discardableResult
    public func set(
        _ value: JSONValue, at path: String, ttl: Duration? = nil
    ) async throws(LarderClientError) -> ConfigChange {
        let path = try JSONPath(argument: path)
        let lifetime = try CallArguments.check(value, at: path, ttl: ttl)
        let parameters = ConfigSet.Parameters(
            path: path, value: value, namespace: namespace, ttlMilliseconds: lifetime)
        return ConfigChange(try await client.call(ConfigSet.self, parameters))
    }

    /// Replaces all overrides of the namespace with the members of an object.
    ///
    /// ```swift
    /// try await client.config.replaceAll(with: ["search": ["limit": 25]])
    /// ```
    /// - Parameters:
    ///   - value: an object. It is merged with the lower layers.
    ///   - ttl: the time after which the overrides expire, in whole milliseconds, rounded up; nil for no expiry.
    /// - Throws: `invalidArgument` if the value is not an object or the time to live is not positive.
    @discardableResult
    public func replaceAll(
        with value: JSONValue, ttl: Duration? = nil
    ) async throws(LarderClientError) -> ConfigChange {
        try CallArguments.check(value, at: JSONPath([]))
        let lifetime = try CallArguments.milliseconds(ttl: ttl)
        guard value.kind == .object else {
            throw LarderClientError(
                .invalidArgument, "the new document is \(value.kind.article), not an object",
                advice: "set(_:at:ttl:) sets a single value")
        }
        let parameters = ConfigSet.Parameters(
            path: .root, value: value, namespace: namespace, ttlMilliseconds: lifetime, replaceAll: true)
        return ConfigChange(try await client.call(ConfigSet.self, parameters))
    }

    /// Removes all overrides of the namespace. The values of the other layers take effect again.
    ///
    /// ```swift
    /// let change = try await client.config.unsetAll()
    /// print("revision \(change.revision)")
    /// ```
    /// - Returns: the revision that no longer contains the overrides; the current revision if the document does not
    ///   change.
    @discardableResult
    public func unsetAll() async throws(LarderClientError)
        -> ConfigChange
    {
        let parameters = ConfigUnset.Parameters(path: JSONPath([]), namespace: namespace, all: true)
        return ConfigChange(try await client.call(ConfigUnset.self, parameters))
    }

    /// Removes the overrides at and below a path. The values of the other layers take effect again.
    ///
    /// ```swift
    /// try await client.config.unset(at: "search.limit")
    /// ```
    ///
    /// Succeeds if there is no override at the path, and changes nothing: ``ConfigChange/hasEffect`` is then false.
    /// ``unsetAll()`` removes all overrides.
    ///
    /// An override above the path stays, also if it sets a value at the path. After `set(["limit": 25], at: "search")`,
    /// `unset(at: "search.limit")` changes nothing: unset `search`, or set `search.limit`. After
    /// ``ConfigCalls/update(at:as:default:reason:attempts:_:)``, which writes each member as an override of its own,
    /// `unset(at: "search.limit")` has an effect.
    /// - Parameters:
    ///   - path: the path of an object member. It must not be empty.
    /// - Throws: `invalidArgument` if the path is empty.
    @discardableResult
    public func unset(
        at path: String
    ) async throws(LarderClientError) -> ConfigChange {
        let path = try JSONPath(argument: path)
        if path.isRoot { throw CallArguments.emptyPath("unsetAll() removes all overrides") }
        let parameters = ConfigUnset.Parameters(path: path, namespace: namespace)
        return ConfigChange(try await client.call(ConfigUnset.self, parameters))
    }

    /// Replaces the remote layer of the namespace with a document.
    ///
    /// ```swift
    /// try await client.config.push(["search": ["limit": 10]], version: "2026-01-31.1")
    /// ```
    /// - Parameters:
    ///   - document: an object.
    ///   - version: the version that the document's author gives it; nil for none. The agent rejects a version that is
    ///     older than the current one.
    ///   - force: accepts an older version and a document that removes too many members of the current one, and ends
    ///     the hold of a rollback.
    /// - Returns: the revision that contains the change.
    /// - Throws: `remote` with `rejected` if the document fails a check. The last good snapshot then stays in use.
    @discardableResult
    public func push(
        _ document: JSONValue, version: String? = nil, force: Bool = false
    ) async throws(LarderClientError) -> ConfigChange {
        try CallArguments.check(document, at: JSONPath([]))
        let parameters = ConfigPush.Parameters(
            document: document, namespace: namespace, version: version, force: force)
        return ConfigChange(try await client.call(ConfigPush.self, parameters))
    }

    /// Polls the remote source of the namespace, reads the files of the other layers again, and waits for the result.
    ///
    /// ```swift
    /// let result = try await client.config.refresh(timeout: .seconds(60))
    /// print(result.hasEffect ? "published revision \(result.revision)" : "unchanged")
    /// ```
    /// - Parameters:
    ///   - force: accepts an older version and a document that removes too many members of the current one, and ends
    ///     the hold of a rollback.
    ///   - timeout: how long to wait; nil for ``LarderClient/Configuration/timeout``.
    /// - Throws: `remote` with `upstreamFailed` if the source is unreachable or sends no usable response, or with
    ///   `rejected` if the document fails a check. The last good snapshot then stays in use.
    @discardableResult
    public func refresh(
        force: Bool = false, timeout: Duration? = nil
    ) async throws(LarderClientError) -> ConfigChange {
        let parameters = ConfigRefresh.Parameters(namespace: namespace, force: force)
        let result = try await client.call(ConfigRefresh.self, parameters, timeout: timeout)
        return ConfigChange(revision: result.revision, epoch: result.epoch, hasEffect: result.changed)
    }

    /// Returns the state and the source of the namespace, and the last rejected document with the reason.
    ///
    /// ```swift
    /// let status = try await client.config.status()
    /// print(status.state, status.lastError?.message ?? "")
    /// ```
    ///
    /// ``AgentClient/namespaces()`` returns the status of all namespaces.
    public func status() async throws(LarderClientError)
        -> NamespaceStatus
    {
        let result = try await client.call(ConfigStatus.self, ConfigStatus.Parameters(namespace: namespace))
        guard let status = result.namespaces.first else {
            throw LarderClientError(.protocolViolation, "the reply has no status of the namespace")
        }
        return NamespaceStatus(status)
    }
}

/// Methods that wait for a condition or acknowledge snapshots.
extension ConfigClient {
    /// Waits until a condition holds in the current snapshot. Returns at once if it already holds.
    ///
    /// ```swift
    /// try await client.config.wait(for: .equals(true), at: "search.enabled", timeout: .seconds(30))
    /// ```
    ///
    /// The agent checks the condition only against snapshots, and may combine changes in quick succession into one
    /// snapshot. A value that is replaced immediately after it was set can therefore be missed.
    /// - Parameters:
    ///   - condition: what to wait for: a value that equals or differs from a given one, the presence or absence of a
    ///     value, or a revision.
    ///   - path: the path whose value is checked; empty for the whole document.
    ///   - timeout: how long to wait, in whole milliseconds, rounded up; nil for no limit.
    ///     ``LarderClient/Configuration/timeout`` does not apply.
    /// - Returns: the snapshot in which the condition holds.
    /// - Throws: `remote` with `timeout` if the condition does not hold in time; `invalidArgument` if the timeout is
    ///   negative or longer than 3660 days. With a timeout of zero, the condition is checked once.
    @discardableResult
    public func wait(
        for condition: WaitCondition, at path: String = "", timeout: Duration? = nil
    ) async throws(LarderClientError) -> LarderSnapshot {
        let target = try JSONPath(argument: path)
        try CallArguments.check(timeout, "timeout", .upToTenYears, advice: "pass nil for no limit")
        switch condition {
        case .equals(let value), .notEquals(let value): try CallArguments.check(value, at: target)
        case .revisionAtLeast(let revision, _): try CallArguments.check(revision: revision)
        case .exists: break
        }
        let parameters = ConfigWait.Parameters(
            condition.wire, path: target, namespace: namespace, timeoutMilliseconds: timeout?.milliseconds)
        // The agent enforces the timeout. The client waits longer, and its own timeout is only for an agent that does
        // not respond at all.
        let maxTimeout = Duration.milliseconds(ConfigWait.Parameters.longestTimeoutMilliseconds)
        let replyTimeout = (timeout ?? maxTimeout) + (client.configuration.timeout ?? maxTimeout)
        let result = try await client.call(ConfigWait.self, parameters, timeout: replyTimeout)
        return LarderSnapshot(
            value: result.value, revision: result.revision, epoch: result.epoch,
            state: LarderSnapshot.State(result.state), namespace: namespace
        ).named(path)
    }

    /// Reports to the agent that this program uses a snapshot, or why it rejects the snapshot. The status of the
    /// namespace shows the report while this client is connected.
    ///
    /// ```swift
    /// for try await snapshot in client.config.snapshots(at: "search") {
    ///     do {
    ///         try await server.apply(snapshot.decode(default: Search()))
    ///         try? await client.config.acknowledge(snapshot)
    ///     } catch {
    ///         try? await client.config.acknowledge(snapshot, accepted: false, reason: "\(error)")
    ///     }
    /// }
    /// ```
    /// - Parameters:
    ///   - snapshot: the snapshot to acknowledge.
    ///   - accepted: true if the program uses the snapshot, false if the program rejects it.
    ///   - reason: why the snapshot is rejected, for people; at most 1,024 bytes. It must not contain secrets, because
    ///     every user who may read the namespace can see it.
    public func acknowledge(
        _ snapshot: LarderSnapshot, accepted: Bool = true, reason: String? = nil
    ) async throws(LarderClientError) {
        let parameters = ConfigAcknowledge.Parameters(
            revision: snapshot.revision, accepted: accepted, reason: reason, namespace: snapshot.namespace,
            epoch: snapshot.epoch)
        _ = try await client.call(ConfigAcknowledge.self, parameters)
    }
}

extension ConfigClient {
    /// Makes several changes as one: all of them or none, with one revision, one event and one entry in the history.
    ///
    /// ```swift
    /// try await client.config.apply(reason: "new cluster") { change in
    ///     change.set(["c", "d"], at: "search.hosts", ifValue: .equals(["a", "b"]))
    ///     change.unset(at: "search.limit")
    /// }
    /// ```
    ///
    /// All conditions are compared before the first change is made. An empty list changes nothing and sends nothing to
    /// the agent.
    /// - Parameters:
    ///   - ifRevision: the revision that must be current; by default any.
    ///   - reason: why the change is made, for the history and the log, in at most 1,024 characters; nil for no reason.
    ///   - dryRun: whether only to report the differences that the change would make.
    ///   - build: adds at most 1,000 changes to the list.
    /// - Returns: the revision that contains the changes; with `dryRun`, the current revision and the differences; nil
    ///   if the list is empty.
    /// - Throws: `remote` with `conflict` if a condition does not hold; also the errors of
    ///   ``set(_:at:ttl:)``, and `invalidArgument` if the reason is too long. Nothing has changed then.
    @discardableResult
    public func apply(
        ifRevision: RevisionCondition = .any,
        reason: String? = nil, dryRun: Bool = false, _ build: (inout ConfigChangeList) -> Void
    ) async throws(LarderClientError) -> ConfigChange? {
        var list = ConfigChangeList()
        build(&list)
        return try await apply(list, ifRevision: ifRevision, reason: reason, dryRun: dryRun)
    }

    /// Makes the changes of a list as one, as ``apply(ifRevision:reason:dryRun:_:)`` does.
    ///
    /// ```swift
    /// var changes = ConfigChangeList()
    /// changes.set(25, at: "search.limit")
    /// try await client.config.apply(changes, ifRevision: .any, reason: nil, dryRun: false)
    /// ```
    @discardableResult
    public func apply(
        _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
    ) async throws(LarderClientError) -> ConfigChange? {
        let changes = try list.wire()
        if changes.isEmpty { return nil }
        try CallArguments.check(reason: reason)
        if case .equals(let revision, _) = ifRevision { try CallArguments.check(revision: revision, "ifRevision") }
        let parameters = ConfigApply.Parameters(
            changes, namespace: namespace, ifRevision: ifRevision.wire, reason: reason, isDryRun: dryRun)
        return ConfigChange(try await client.call(ConfigApply.self, parameters))
    }

    /// Adds to a number, in one step, and sets an override to the sum. An absent value counts as 0. An increment that is
    /// repeated counts twice, so check ``LarderClientError/mayHaveBeenExecuted`` first.
    ///
    /// ```swift
    /// // Sells one ticket; fails with `conflict` if none is left.
    /// let left = try await client.config.increment(at: "tickets.left", by: -1, minimum: 0).value
    /// ```
    /// - Parameters:
    ///   - path: the path of an object member. It must not be empty.
    ///   - step: the number to add.
    ///   - minimum: the least permitted sum; nil for none.
    ///   - maximum: the greatest permitted sum; nil for none.
    ///   - reason: why the change is made, in at most 1,024 characters; nil for no reason.
    /// - Returns: the sum, and the change that contains it.
    /// - Throws: `remote` with `conflict` if the sum is less than `minimum` or greater than `maximum`, or with
    ///   `invalidParams` if the value is not an integer. Nothing has changed then.
    @discardableResult
    public func increment(
        at path: String, by step: Int = 1, minimum: Int? = nil, maximum: Int? = nil, reason: String? = nil
    ) async throws(LarderClientError) -> (value: Int, change: ConfigChange) {
        let target = try JSONPath(argument: path)
        if target.isRoot { throw CallArguments.emptyPath("an increment changes a single number") }
        for (number, name) in [(step, "by"), (minimum, "minimum"), (maximum, "maximum")] {
            try CallArguments.check(number, name, in: CallArguments.integers)
        }
        try CallArguments.check(reason: reason)
        let parameters = ConfigIncrement.Parameters(
            path: target, by: step, namespace: namespace, minimum: minimum, maximum: maximum,
            reason: reason)
        let result = try await client.call(ConfigIncrement.self, parameters)
        return (
            result.value,
            ConfigChange(revision: result.revision, epoch: result.epoch, hasEffect: result.changed)
        )
    }
}

extension LarderClient {
    /// The configuration in the namespace `default`: values, snapshots, changes. `config["shop"]` is that in the
    /// namespace `shop`.
    public var config: ConfigClient { ConfigClient(client: self, namespace: Self.defaultNamespace) }
}
