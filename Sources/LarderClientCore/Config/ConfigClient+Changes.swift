import LarderJSON
public import LarderProtocol

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
    ///   - namespace: the name of the namespace.
    ///   - ifRevision: the revision that must be current; by default any.
    ///   - reason: why the change is made, for the history and the log, in at most 1,024 characters; nil for no reason.
    ///   - dryRun: whether only to report the differences that the change would make.
    ///   - build: adds at most 1,000 changes to the list.
    /// - Returns: the revision that contains the changes; with `dryRun`, the current revision and the differences; nil
    ///   if the list is empty.
    /// - Throws: `remote` with `conflict` if a condition does not hold; also the errors of
    ///   ``set(_:at:ttl:namespace:)``. Nothing has changed then.
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
    /// let left = try await client.config.increment(at: "tickets.left", by: -1, minimum: 0).value
    /// ```
    /// - Parameters:
    ///   - path: the path of an object member. It must not be empty.
    ///   - step: the number to add.
    ///   - minimum: the least permitted sum; nil for none.
    ///   - maximum: the greatest permitted sum; nil for none.
    ///   - namespace: the name of the namespace.
    ///   - reason: why the change is made, in at most 1,024 characters; nil for no reason.
    /// - Returns: the sum, and the revision that contains it.
    /// - Throws: `remote` with `conflict` if the sum is less than `minimum` or greater than `maximum`, or with
    ///   `invalidParams` if the value is not an integer. Nothing has changed then.
    @discardableResult
    public func increment(
        at path: String, by step: Int = 1, minimum: Int? = nil, maximum: Int? = nil,
        namespace: String = defaultNamespace, reason: String? = nil
    ) async throws(LarderClientError) -> ConfigIncrement.Result {
        let parameters = ConfigIncrement.Parameters(
            path: try JSONPath(argument: path), by: step, namespace: namespace, minimum: minimum, maximum: maximum,
            reason: reason)
        return try await client.call(ConfigIncrement.self, parameters)
    }
}
