import LarderClient
import Synchronization

/// A namespace in memory: a document, and overrides above it, which have the same effects as those of the agent. Overrides
/// do not expire.
final class MemoryConfig: ConfigCalls {
    private struct State {
        let document: JSONValue
        /// The overrides, in the order in which they were set.
        var overrides: [(path: [String], value: JSONValue)] = []
        var revision = 1

        /// The document with the overrides.
        var value: JSONValue {
            overrides.reduce(document) { MemoryConfig.merging($1.value, at: $1.path[...], into: $0) ?? [:] }
        }

        /// Removes the overrides at and below a path. Those above it stay.
        mutating func unset(at path: [String]) { overrides.removeAll { $0.path.starts(with: path) } }
    }

    let namespace = "default"
    private let state: Mutex<State>

    init(_ document: JSONValue) { state = Mutex(State(document: document)) }

    private func read(_ path: String) -> LarderSnapshot {
        let (document, revision) = state.withLock { ($0.value, $0.revision) }
        let value = (try? JSONPath(parsing: path)).flatMap { document.value(at: $0) }
        return LarderSnapshot(value: value, revision: revision, epoch: "test", state: .fresh)
    }

    func snapshot(
        at path: String, maximumAge: Duration?, staleIfError: Duration?
    ) async throws(LarderClientError) -> LarderSnapshot { read(path) }

    func snapshots(at path: String, mode: LarderSnapshots.Mode) -> LarderSnapshots {
        LarderSnapshots(
            AsyncStream { continuation in
                continuation.yield(.snapshot(read(path)))
                continuation.finish()  // without this line, the stream waits, as if nothing changed
            })
    }

    @discardableResult
    func set(_ value: JSONValue, at path: String, ttl: Duration?) async throws(LarderClientError) -> ConfigChange {
        try change { $0.set(value, at: path) }
    }

    @discardableResult
    func unset(at path: String) async throws(LarderClientError) -> ConfigChange { try change { $0.unset(at: path) } }

    @discardableResult
    func unsetAll() async throws(LarderClientError) -> ConfigChange { try change { $0.unset(at: "") } }

    @discardableResult
    func apply(
        _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
    ) async throws(LarderClientError) -> ConfigChange? {
        list.changes.isEmpty ? nil : try change(ifRevision, dryRun: dryRun) { $0 = list }
    }

    @discardableResult
    func refresh(force: Bool, timeout: Duration?) async throws(LarderClientError) -> ConfigChange {
        try change { _ in }
    }

    private func change(
        _ condition: RevisionCondition = .any, dryRun: Bool = false, _ build: (inout ConfigChangeList) -> Void
    ) throws(LarderClientError) -> ConfigChange {
        var list = ConfigChangeList()
        build(&list)
        let changes = try list.changes.map { change throws(LarderClientError) -> (ConfigChangeList.Change, JSONPath) in
            guard let path = try? JSONPath(parsing: change.path) else {
                throw LarderClientError(.invalidArgument, "the path \(change.path) is malformed")
            }
            if case .set = change.operation, path.segments.isEmpty {
                throw LarderClientError(.invalidArgument, "an override needs a path")
            }
            return (change, path)
        }
        return try state.withLock { state throws(LarderClientError) in
            var (new, old) = (state, state.value)
            if case .equals(let revision, let epoch) = condition,
                revision != state.revision || epoch ?? "test" != "test"
            {
                let conflict = RemoteError.Conflict(revision: state.revision, epoch: "test")
                throw LarderClientError(remote: RemoteError(.conflict, "another revision", conflict: conflict))
            }
            // All conditions are about the document before the first change.
            for (change, path) in changes {
                let current = old.value(at: path)
                if change.condition != .any, change.condition != current.map({ .equals($0) }) ?? .absent {
                    let conflict = RemoteError.Conflict(
                        revision: state.revision, epoch: "test", path: path, value: current)
                    throw LarderClientError(remote: RemoteError(.conflict, "another value", conflict: conflict))
                }
            }
            for (change, path) in changes {
                switch change.operation {
                case .set(let value, _):
                    let above = path.segments.indices.map { JSONPath(Array(path.segments[..<$0])) }
                    if above.contains(where: { new.value.value(at: $0)?.kind == .array }) {
                        throw LarderClientError(remote: RemoteError(.invalidParams, "\(path) is inside an array"))
                    }
                    new.unset(at: path.segments)
                    new.overrides.append((path.segments, value))
                case .unset: new.unset(at: path.segments)
                case .require: break
                }
            }
            let differences = Self.differences(from: old, to: new.value, at: [])
            let hasEffect = !differences.isEmpty
            if hasEffect { new.revision += 1 }
            if !dryRun { state = new }
            return ConfigChange(
                revision: state.revision, epoch: "test", hasEffect: hasEffect, differences: dryRun ? differences : nil)
        }
    }

    /// Returns the paths at which two values differ. Two objects are compared member by member.
    private static func differences(
        from old: JSONValue?, to new: JSONValue?, at path: [String]
    ) -> [ConfigDifference] {
        if old == new { return [] }
        guard let old, let new, old.kind == .object, new.kind == .object else {
            return [ConfigDifference(path: JSONPath(path), old: old, new: new)]
        }
        let added = new.members.filter { old[$0.name] == nil }
        return old.members.flatMap { differences(from: $0.value, to: new[$0.name], at: path + [$0.name]) }
            + added.flatMap { differences(from: nil, to: $0.value, at: path + [$0.name]) }
    }

    /// Returns a value with an override at a path; nil for no value. An object is merged, and null removes the value.
    private static func merging(
        _ value: JSONValue, at path: ArraySlice<String>, into target: JSONValue?
    ) -> JSONValue? {
        let old = target?.kind == .object ? target : nil
        if let name = path.first {
            if value.isNull, old == nil { return target }  // a null creates no object above its path
            return replacing(name, of: old, with: merging(value, at: path.dropFirst(), into: old?[name]))
        }
        guard value.kind == .object else { return value.isNull ? nil : value }
        return value.members.reduce(old ?? [:]) { merged, member in
            replacing(member.name, of: merged, with: merging(member.value, at: [], into: merged[member.name]))
        }
    }

    /// Returns an object with another member; nil removes it.
    private static func replacing(_ name: String, of object: JSONValue?, with value: JSONValue?) -> JSONValue {
        let others = object?.members.filter { $0.name != name }.map { ($0.name, $0.value) } ?? []
        return .object(others + (value.map { [(name, $0)] } ?? []))
    }
}
