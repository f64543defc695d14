import LarderEncoding
public import LarderJSON
package import LarderProtocol

/// A list of changes that the agent makes as one: all of them or none, with one revision and one event. See
/// ``ConfigClient/apply(ifRevision:reason:dryRun:_:)``.
///
/// ```swift
/// try await client.config.apply { change in
///     change.require(.equals("ready"), at: "search.state")
///     change.set(["c", "d"], at: "search.hosts", ttl: .seconds(3600))
///     change.unset(at: "search.limit")
/// }
/// ```
public struct ConfigChangeList: Sendable {
    /// A change at one path.
    public struct Change: Sendable, Equatable {
        /// The kind of the change, with its value.
        public enum Operation: Sendable, Equatable {
            /// Sets an override, which expires after `ttl`; nil for no expiry.
            case set(JSONValue, ttl: Duration?)
            /// Removes the overrides at and below the path.
            case unset
            /// Changes nothing, and only compares the value.
            case require
        }

        /// The kind of the change, with its value.
        public let operation: Operation
        /// The path, as it was passed. A path that the library creates, such as that of a member in an update or of a
        /// model of a repository, has dots if its names permit that form, and is a JSON Pointer otherwise.
        public let path: String
        /// The resolved value that must be at the path before the first change of the list is made.
        public let condition: ValueCondition
    }

    /// The changes, in order.
    public private(set) var changes: [Change] = []

    /// Creates an empty list.
    public init() {}

    /// Sets an override, as ``ConfigClient/set(_:at:ttl:)`` does.
    /// - Parameters:
    ///   - value: the value. An object is merged with the values of the lower layers; null hides these values.
    ///   - path: the path of an object member. It must not be empty.
    ///   - ttl: the time after which the override expires, in whole milliseconds, rounded up; nil for no expiry.
    ///   - condition: the resolved value that must be at the path before the first change is made.
    public mutating func set(
        _ value: JSONValue, at path: String, ttl: Duration? = nil, ifValue condition: ValueCondition = .any
    ) {
        changes.append(Change(operation: .set(value, ttl: ttl), path: path, condition: condition))
    }

    /// Removes the overrides at and below a path, as ``ConfigClient/unset(at:)`` does.
    /// - Parameters:
    ///   - path: the path of an object member. It must not be empty.
    ///   - condition: the resolved value that must be at the path before the first change is made.
    public mutating func unset(at path: String, ifValue condition: ValueCondition = .any) {
        changes.append(Change(operation: .unset, path: path, condition: condition))
    }

    /// Makes all changes of the list depend on the resolved value at a path, without changing that value.
    /// - Parameters:
    ///   - condition: the value that must be at the path before the first change is made.
    ///   - path: the path; empty for the whole document.
    public mutating func require(_ condition: ValueCondition, at path: String) {
        changes.append(Change(operation: .require, path: path, condition: condition))
    }

    /// Adds a change of the protocol.
    /// - Parameter path: the path as the caller wrote it; nil for the description of the path.
    package mutating func append(_ change: ConfigApply.Change, spelled path: String? = nil) {
        let operation: Change.Operation =
            switch change.operation {
            case .set(let value, let lifetime): .set(value, ttl: lifetime.map { .milliseconds($0) })
            case .unset: .unset
            case .test: .require
            }
        changes.append(
            Change(
                operation: operation, path: path ?? change.path.description,
                condition: ValueCondition(change.ifValue)))
    }

    /// The list as the parameter `changes` of `config.apply`.
    /// - Throws: `invalidArgument` if a path is malformed, a change is one that no agent makes, or there are too many.
    func wire() throws(LarderClientError) -> [ConfigApply.Change] {
        var wire: [ConfigApply.Change] = []
        wire.reserveCapacity(changes.count)
        for change in changes {
            let (path, condition) = (try JSONPath(argument: change.path), change.condition)
            if case .equals(let value) = condition { try CallArguments.check(value, at: path) }
            switch change.operation {
            case .set(let value, let ttl):
                let lifetime = try CallArguments.check(value, at: path, ttl: ttl)
                wire.append(
                    ConfigApply.Change(.set(value, ttlMilliseconds: lifetime), at: path, ifValue: condition.wire))
            case .unset where path.isRoot: throw CallArguments.emptyPath("unsetAll() removes all overrides")
            case .unset: wire.append(ConfigApply.Change(.unset, at: path, ifValue: condition.wire))
            case .require where condition == .any: break
            case .require: wire.append(ConfigApply.Change(.test, at: path, ifValue: condition.wire))
            }
        }
        if wire.isEmpty { return wire }
        try CallArguments.check(
            wire.count, "the number of changes", in: 1...ConfigApply.Parameters.maxChanges,
            advice: "make several calls, or set a value that contains the others")
        return wire
    }
}

extension ConfigApply.Change {
    /// Returns the changes that turn one resolved value into another. Objects are compared member by member. A member
    /// that is equal in both gets no override, so its value still comes from the layer that sets it now. A member that
    /// the new value lacks is set to null, which hides the values of the lower layers.
    package static func differences(
        from old: JSONValue, to new: JSONValue, at path: JSONPath
    ) -> [ConfigApply.Change] {
        var changes: [ConfigApply.Change] = []
        addDifferences(from: old, to: new, at: path.segments, to: &changes)
        return changes
    }

    private static func addDifferences(
        from old: JSONValue, to new: JSONValue, at path: [String], to changes: inout [ConfigApply.Change]
    ) {
        if old == new { return }
        guard old.kind == .object, new.kind == .object else {
            changes.append(ConfigApply.Change(.set(new), at: JSONPath(path)))
            return
        }
        for (name, value) in old.members {
            if let member = new[name] {
                addDifferences(from: value, to: member, at: path + [name], to: &changes)
            } else {
                changes.append(ConfigApply.Change(.set(.null), at: JSONPath(path + [name])))
            }
        }
        for (name, value) in new.members where old[name] == nil {
            changes.append(ConfigApply.Change(.set(value), at: JSONPath(path + [name])))
        }
    }
}

/// The changes of one `config.apply`, within the limits of a request.
package struct ChangeChunk: Sendable {
    /// The maximum size of the encoded changes. The agent's default limit for a line (`lineBytes`) is twice
    /// as large, so that the other parameters fit, too.
    package static let maxBytes = 512 << 10

    /// The changes, in the order in which they were added.
    package private(set) var changes: [ConfigApply.Change] = []
    private var byteCount = 0

    package init() {}

    /// Adds changes that belong together, unless the chunk would then exceed a limit. An empty chunk accepts any
    /// changes, because they could not be sent otherwise.
    /// - Parameter added: their size; see ``byteCount(of:)``.
    /// - Returns: whether the changes were added.
    package mutating func add(_ more: [ConfigApply.Change], byteCount added: Int) -> Bool {
        let fits = changes.count + more.count <= ConfigApply.Parameters.maxChanges && byteCount + added <= Self.maxBytes
        guard fits || changes.isEmpty else { return false }
        changes += more
        byteCount += added
        return true
    }

    /// Divides changes into chunks, in order.
    /// - Parameter groups: the changes that belong together.
    package static func chunks(of groups: some Sequence<[ConfigApply.Change]>) -> [ChangeChunk] {
        var chunks: [ChangeChunk] = []
        for group in groups {
            let size = byteCount(of: group)
            if let last = chunks.indices.last, chunks[last].add(group, byteCount: size) { continue }
            var chunk = ChangeChunk()
            _ = chunk.add(group, byteCount: size)
            chunks.append(chunk)
        }
        return chunks
    }

    /// The size in bytes of encoded changes, rounded up by less than 100 bytes.
    package static func byteCount(of changes: [ConfigApply.Change]) -> Int {
        var writer = JSONWriter()
        ConfigApply.Parameters(changes).write(to: &writer)
        return writer.bytes.count
    }
}
