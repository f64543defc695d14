import FoundationEssentials
import LarderEncoding
import LarderJSON
import LarderProtocol

extension ConfigCalls {
    /// Reads the value at a path, changes it, and writes the differences as overrides, unless another client has
    /// changed the value in the meantime. In that case the update starts again with the new value, each time after a
    /// random delay of at most one second.
    ///
    /// ```swift
    /// struct Search: Codable { var limit: Int; var hosts: [String] }
    /// try await client.config.update(at: "search", as: Search.self) { search in
    ///     search.hosts.append("c")
    /// }
    /// ```
    ///
    /// The value before and after `change` is encoded as JSON, and the members of objects are compared one by one, at
    /// every depth. Only members with another JSON value are written. A member that the changed value no longer has is
    /// hidden with a null. Any other value, such as an array, is written as a whole. Members that the type does not have
    /// stay as they are. If `change` leaves the value as it was, nothing is written.
    ///
    /// Without a value at the path, the changed value is compared with the default, so that the other members of the
    /// default are not written and still follow a source that provides them later. Members of a dictionary are written
    /// together, because decoding does not mix the entries of a dictionary with those of the default. For the same reason
    /// that a default provides missing members, an update cannot remove a member which only the default has.
    ///
    /// The update gives up after a number of attempts, ten by default, so that it cannot run forever beside a client that
    /// writes all the time. ``ConfigClient/increment(at:by:minimum:maximum:reason:)`` adds to a number without attempts.
    /// - Parameters:
    ///   - path: the path of an object member; empty for the whole document.
    ///   - type: the type of the value.
    ///   - initial: the value to change if the path has no value, and the source of the members that the value
    ///     lacks, as for ``value(at:as:default:decoder:)``. Nil makes a missing value an error, unless the type is an
    ///     `Optional`: `change` then gets nil.
    ///   - reason: why the change is made, for the history and the log, in at most 1,024 characters; nil for no reason.
    ///   - attempts: the maximum number of attempts, at least 1.
    ///   - change: changes the value. It may be called several times.
    /// - Returns: the changed value.
    /// - Throws: `remote` with `notFound` if there is no value, `initial` is nil, and the type is not an `Optional`, or
    ///   with `conflict` if another client changed the value before each of the attempts was complete. This conflict is
    ///   retryable. Throws `decodingFailed` if the value does not match the type; `invalidArgument` if the changed value
    ///   cannot be encoded as JSON or `attempts` is less than 1; also the errors of ``set(_:at:ttl:)``.
    @discardableResult
    public func update<Value: Codable & Sendable>(
        at path: String, as type: Value.Type = Value.self, default initial: Value? = nil, reason: String? = nil,
        attempts: Int = 10,
        _ change: (inout Value) -> Void
    ) async throws(LarderClientError) -> Value {
        try await update(
            at: path, default: initial, reason: reason, attempts: attempts, coding: ConfigClient.Coding(),
            change)
    }

    /// Performs ``update(at:as:default:reason:attempts:_:)`` with a decoder and an encoder.
    func update<Value: Codable & Sendable>(
        at path: String, default initial: Value?, reason: String?, attempts: Int = 10,
        coding: ConfigClient.Coding, _ change: (inout Value) -> Void
    ) async throws(LarderClientError) -> Value {
        let target = try ValuePath(path)
        try CallArguments.check(attempts, "attempts", in: 1...Int.max)
        let missing = missingValue(default: initial)
        let advice = "try again, pass more attempts:, or use increment(at:by:) for a number that many clients change"
        return try await retryingConflicts(attempts: attempts, advice) { () async throws(LarderClientError) in
            let old = try await value(at: target, isOptional: missing != nil)
            var (value, before) = try await decode(old, at: target, over: initial, missing: missing, coding)
            change(&value)
            let changes = try await Self.differences(
                from: before, to: value, over: initial, coding, at: target.path, ifValue: old)
            try await apply(changes, at: target, reason)
            return value
        }
    }

    /// Makes the value at a path equal to `value`. Writes only the differences, as
    /// ``update(at:as:default:reason:attempts:_:)`` does. Replaces a value that cannot be decoded, and keeps the
    /// members of that value which `value` does not have.
    /// - Parameter ttl: the time after which the overrides that this method writes expire; nil for no expiry.
    func setDifferences<Value: Codable & Sendable>(
        to value: Value, at path: String, default initial: Value?, ttl: Duration?, coding: ConfigClient.Coding
    ) async throws(LarderClientError) {
        let target = try ValuePath(path)
        let lifetime = try CallArguments.milliseconds(ttl: ttl)
        try await retryingConflicts { () async throws(LarderClientError) in
            let old = try await self.value(at: target, isOptional: true)
            let before =
                old == nil && initial == nil
                ? .null : (try? await decode(old, at: target, over: initial, missing: initial, coding))?.encoded
            let changes = try await Self.differences(
                from: before, to: value, over: initial, coding, at: target.path, ifValue: old, ttl: lifetime)
            try await apply(changes, at: target, nil)
        }
    }

    /// Decodes a value, and encodes it again: decoding loses the members that the type does not have, which then do not
    /// count as differences.
    /// - Parameters:
    ///   - old: the value; nil if the path has no value.
    ///   - missing: the result without a value. It must not be nil then.
    private func decode<Value: Codable & Sendable>(
        _ old: JSONValue?, at target: ValuePath, over initial: Value?, missing: Value?,
        _ coding: ConfigClient.Coding
    ) async throws(LarderClientError) -> (value: Value, encoded: JSONValue) {
        let place = ValuePlace(path: target.text, namespace: namespace)
        return try await concurrently { () async throws(LarderClientError) in
            let decoded = try old?.decode(Value.self, decoder: coding.decoder, over: initial, at: place)
            guard let value = decoded ?? missing else {
                preconditionFailure("a missing value without a default is an error")
            }
            return (value, try JSONValue(encoding: value, encoder: coding.encoder))
        }
    }

    /// The changes from an encoded value to another, on condition that the value at the path still is `old`. If there
    /// are more than a request can have, a single change sets the whole value.
    /// - Parameters:
    ///   - before: the encoding of the decoded `old`, or of the default without a value; nil if `old` could not be
    ///     decoded. The members of `old` that the new value does not have then stay as they are.
    ///   - initial: the default that provides the members which `old` lacks; nil for none.
    ///   - old: the value at the path; nil for none.
    ///   - lifetime: the time to live of the overrides in milliseconds; nil for no expiry.
    private static func differences<Value: Codable & Sendable>(
        from before: JSONValue?, to value: Value, over initial: Value?, _ coding: ConfigClient.Coding,
        at path: JSONPath, ifValue old: JSONValue?, ttl lifetime: Int? = nil
    ) async throws(LarderClientError) -> [ConfigApply.Change] {
        try await concurrently { () async throws(LarderClientError) in
            let encoded = try JSONValue(encoding: value, encoder: coding.encoder)
            let after = before == nil ? MergePatch.apply(encoded, to: old) : encoded
            let before = before ?? old ?? .null
            var changes = ConfigApply.Change.differences(from: before, to: after, at: path)
            if changes.isEmpty { return [] }
            if initial != nil, before.kind == .object, after.kind == .object {
                let patch = MergePatch.difference(from: before, to: after) ?? after
                let new = MergePatch.apply(patch, to: old ?? .emptyObject)
                let decoded = try? new.decode(Value.self, decoder: coding.decoder, over: initial)
                let seen = try decoded.map { value throws(LarderClientError) in
                    try JSONValue(encoding: value, encoder: coding.encoder)
                }
                changes += membersWithoutDefault(of: after, seen: seen, old: old, at: path, besides: changes)
            }
            if changes.count >= ConfigApply.Parameters.maxChanges, !path.isRoot {
                changes = [ConfigApply.Change(.set(after), at: path)]
            }
            if let lifetime {
                for index in changes.indices {
                    guard case .set(let value, _) = changes[index].operation else { continue }
                    changes[index].operation = .set(value, ttlMilliseconds: lifetime)
                }
            }
            return changes + [ConfigApply.Change(.test, at: path, ifValue: old.map { .equals($0) } ?? .absent)]
        }
    }

    /// The changes for members that decoding does not read from the default once the value has a part of them. Decoding
    /// takes a whole dictionary from the value, so that the entries of the default must be written as well.
    /// - Parameters:
    ///   - after: the encoded new value.
    ///   - seen: what a reader would decode, encoded again; nil if it could not be decoded.
    private static func membersWithoutDefault(
        of after: JSONValue, seen: JSONValue?, old: JSONValue?, at path: JSONPath,
        besides changes: [ConfigApply.Change]
    ) -> [ConfigApply.Change] {
        // Nulls below a path without an object create nothing, so that the default would still be in effect.
        if old == nil, after == .emptyObject, !path.isRoot { return [ConfigApply.Change(.set(after), at: path)] }
        var more: [ConfigApply.Change] = []
        for (name, value) in after.members where seen?[name] != value {
            let member = JSONPath(path.segments + [name])
            guard let oldValue = old?[name] else {
                more.append(ConfigApply.Change(.set(value), at: member))
                continue
            }
            let new = MergePatch.apply(value, to: oldValue)
            more += ConfigApply.Change.differences(from: oldValue, to: new, at: member)
        }
        let written = Set(changes.map(\.path))
        return more.filter { !written.contains($0.path) }
    }

    private func apply(
        _ changes: [ConfigApply.Change], at target: ValuePath, _ reason: String?
    ) async throws(LarderClientError) {
        var list = ConfigChangeList()
        for change in changes { list.append(change, spelled: change.path == target.path ? target.text : nil) }
        try await apply(list, ifRevision: .any, reason: reason, dryRun: false)
    }

    /// Calls `attempt` up to `attempts` times while it fails with a conflict, each time after a random delay of at most
    /// one second. The delays are real also if the client has a clock of a test. Otherwise, updates that compete in a
    /// test would wait for a test that waits for the updates.
    private func retryingConflicts<Success>(
        attempts: Int = 10, _ advice: String = "try again",
        _ attempt: () async throws(LarderClientError) -> Success
    ) async throws(LarderClientError) -> Success {
        let backoff = LarderBackoff(base: .milliseconds(10), cap: .seconds(1))
        var failures = 0
        while true {
            do throws(LarderClientError) {
                return try await attempt()
            } catch {
                guard error.remoteError?.code == .conflict else { throw error }
                let delay = backoff.delay(beforeAttempt: failures)
                failures += 1
                if failures >= attempts {
                    let text = attempts == 1 ? "the only attempt" : "each of the \(attempts) attempts"
                    // The text of the agent has advice for changes that are not repeated.
                    let place = error.remoteError?.conflict?.path.map { " at \"\($0)\"" } ?? ""
                    throw LarderClientError(
                        error.code, "another client changed the value\(place) during \(text)",
                        advice: advice, remoteError: error.remoteError
                    ).asRetryable()
                }
                do {
                    try await ContinuousClock().sleep(for: delay)
                } catch {
                    throw LarderClientError(.cancelled, "the update was cancelled; nothing was changed")
                }
            }
        }
    }
}
