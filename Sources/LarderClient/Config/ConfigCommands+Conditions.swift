import FoundationEssentials
import LarderJSON
public import LarderProtocol

extension ConfigCommands {
    /// Makes several changes as one: all of them or none, with one revision, one event and one entry in the history.
    ///
    /// ```swift
    /// try await client.config.apply(reason: "new cluster") { change in
    ///     change.set("search.hosts", to: ["c", "d"], ifValue: .equals(["a", "b"]))
    ///     change.unset("search.limit")
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
    /// - Throws: `remote` with `conflict` if a condition does not hold; also the errors of ``set(_:to:ttl:namespace:)``.
    ///   Nothing has changed then.
    @discardableResult
    public func apply(
        namespace: String = defaultNamespace, ifRevision: RevisionCondition = RevisionCondition(),
        reason: String? = nil, dryRun: Bool = false, _ build: (inout ConfigChangeList) -> Void
    ) async throws(LarderClientError) -> ConfigChange? {
        var list = ConfigChangeList()
        build(&list)
        let changes = try list.wire()
        if changes.isEmpty { return nil }
        let parameters = ConfigApply.Parameters(
            changes, namespace: namespace, ifRevision: ifRevision, reason: reason, isDryRun: dryRun)
        return try await client.call(ConfigApply.self, parameters)
    }

    /// Adds to a number, in one step, and sets an override to the sum. An absent value counts as 0.
    ///
    /// ```swift
    /// // Sells one ticket; fails with `conflict` if none is left.
    /// let left = try await client.config.increment("tickets.left", by: -1, minimum: 0).value
    /// ```
    /// - Parameters:
    ///   - path: the path of an object member. It must not be empty.
    ///   - step: the number to add.
    ///   - minimum: the least permitted sum; nil for none.
    ///   - maximum: the greatest permitted sum; nil for none.
    ///   - reason: why the change is made, in at most 1,024 characters; nil for no reason.
    /// - Returns: the sum, and the revision that contains it.
    /// - Throws: `remote` with `conflict` if the sum is less than `minimum` or greater than `maximum`, or with
    ///   `invalidParams` if the value is not an integer. Nothing has changed then.
    @discardableResult
    public func increment(
        _ path: String, by step: Int = 1, minimum: Int? = nil, maximum: Int? = nil,
        namespace: String = defaultNamespace, reason: String? = nil
    ) async throws(LarderClientError) -> ConfigIncrement.Result {
        let parameters = ConfigIncrement.Parameters(
            path: try JSONPath(argument: path), by: step, namespace: namespace, minimum: minimum, maximum: maximum,
            reason: reason)
        return try await client.call(ConfigIncrement.self, parameters)
    }

    /// Reads the value at a path, changes it, and writes the differences as overrides, unless another client has changed
    /// the value in the meantime. In that case the update starts again with the new value, up to nine times, each time
    /// after a random delay of at most one second.
    ///
    /// ```swift
    /// struct Search: Codable { var limit: Int; var hosts: [String] }
    /// try await client.config.update(at: "search", as: Search.self) { search in
    ///     search.hosts.append("c")
    /// }
    /// ```
    ///
    /// Members that the type does not have stay as they are. If `change` leaves the value as it was, nothing is written.
    /// - Parameters:
    ///   - path: the path of an object member; empty for the whole document.
    ///   - type: the type of the value.
    ///   - initial: the value to change if there is none at the path; nil makes an absent value an error.
    ///   - reason: why the change is made, for the history and the log, in at most 1,024 characters; nil for no reason.
    ///   - change: changes the value. It may be called several times.
    /// - Returns: the changed value.
    /// - Throws: `remote` with `notFound` if there is no value and `initial` is nil, or with `conflict` if another client
    ///   changed the value before each of the ten attempts was complete; `decodingFailed` if the value does not match the
    ///   type; `invalidArgument` if the changed value cannot be encoded as JSON; also the errors of
    ///   ``set(_:to:ttl:namespace:)``.
    @discardableResult
    public func update<Value: Codable>(
        at path: String, as type: Value.Type = Value.self, default initial: Value? = nil,
        namespace: String = defaultNamespace, reason: String? = nil, _ change: (inout Value) -> Void
    ) async throws(LarderClientError) -> Value {
        let path = try JSONPath(argument: path)
        let backoff = Backoff(base: .milliseconds(10), cap: .seconds(1))
        var attempt = 0
        while true {
            do throws(LarderClientError) {
                return try await updateOnce(path, initial, namespace, reason, change)
            } catch {
                guard error.remoteError?.code == .conflict, attempt < 9 else { throw error }
                let delay = backoff.delay(beforeAttempt: attempt)
                attempt += 1
                do {
                    try await client.configuration.clock.sleep(for: delay)
                } catch {
                    throw LarderClientError(.cancelled, "the update was cancelled; nothing was changed")
                }
            }
        }
    }

    private func updateOnce<Value: Codable>(
        _ path: JSONPath, _ initial: Value?, _ namespace: String, _ reason: String?, _ change: (inout Value) -> Void
    ) async throws(LarderClientError) -> Value {
        let old: JSONValue?
        do throws(LarderClientError) {
            old = try await client.call(ConfigGet.self, ConfigGet.Parameters(path: path, namespace: namespace)).value
        } catch {
            guard error.remoteError?.code == .notFound, initial != nil else { throw error }
            old = nil
        }
        var changes: [ConfigApply.Change]
        var value: Value
        if let old {
            value = try old.decode(Value.self, decoder: JSONDecoder())
            // Decoding loses the members that the type does not have. The old value is therefore encoded again for the
            // comparison, so that the lost members do not count as differences.
            let before = try JSONValue(encoding: value)
            change(&value)
            changes = ConfigApply.Change.differences(from: before, to: try JSONValue(encoding: value), at: path)
            if changes.isEmpty { return value }
            changes.append(ConfigApply.Change(.test, at: path, ifValue: .equals(old)))
        } else {
            guard var created = initial else { preconditionFailure("an absent value without a default is an error") }
            change(&created)
            value = created
            changes = [ConfigApply.Change(.set(try JSONValue(encoding: value)), at: path, ifValue: .absent)]
        }
        _ = try await client.call(
            ConfigApply.self, ConfigApply.Parameters(changes, namespace: namespace, reason: reason))
        return value
    }
}
