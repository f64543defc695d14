import LarderEncoding
import LarderJSON
import LarderProtocol
import LarderSnapshotFile
import Synchronization

/// The copy from which a ``LarderRepository`` reads.
public enum RepositoryReadPolicy: Sendable, Hashable {
    /// The current copy, which is requested from the agent unless the client has it. If the agent cannot be reached, the
    /// last copy that the repository has read. Without one, the file that the agent exports to `current/` next to its
    /// socket.
    case networkFirst
    /// The last copy that the repository has read, however old it is. Without one, as ``networkFirst``.
    case cacheFirst
    /// The last copy that the repository has read or, without one, the file that the agent exports. No request is sent.
    case cacheOnly
    /// The last copy, if the repository has found it to be current within this time, on the clock of the client.
    /// Otherwise, as ``networkFirst``: while the agent is unreachable, the result is the last copy or the exported file,
    /// also if that is older. The time is from zero to ten years. A file that the agent exports has no age, so that it is
    /// read only when no request succeeds.
    case maximumAge(Duration)
}

/// The copies of a namespace from which a repository reads.
final class LocalCopies: Sendable {
    private struct Last {
        let copy: MappedSnapshot
        /// Returns the time since the copy was last found to be current; nil for a file that the agent exported.
        var age: (@Sendable () -> Duration)?
    }

    private let calls: RepositoryCalls
    private let clock: any Clock<Duration>
    /// The directory of the exported files; nil for none.
    private let directory: String?
    private let last = Mutex<Last?>(nil)

    init(_ calls: RepositoryCalls, directory: String?) {
        self.calls = calls
        clock = calls.config.clock
        self.directory = directory ?? calls.exportDirectory
    }

    /// Returns the copy that a policy demands.
    /// - Throws: `unreachable` if no request may be sent and there is no copy; otherwise the error of the request.
    func copy(_ policy: RepositoryReadPolicy) async throws(LarderClientError) -> MappedSnapshot {
        switch policy {
        case .networkFirst: break
        case .cacheFirst: if let copy = lastCopy(within: nil) { return copy }
        case .maximumAge(let age):
            try CallArguments.check(
                age, "maximumAge", .upToTenYears, advice: "use the policy cacheFirst for any age")
            if let copy = lastCopy(within: age) { return copy }
        case .cacheOnly:
            if let copy = lastCopy(within: nil) { return copy }
            if let copy = await exported() { return copy }
            throw LarderClientError(
                .unreachable, "there is no local copy of the namespace \"\(calls.config.namespace)\"",
                advice: "read once with another policy, or let the agent export its documents (current.enabled)")
        }
        do throws(LarderClientError) {
            let copy = try await calls.localCopy()
            keep(copy)
            return copy
        } catch {
            guard error.isOutage else { throw error }
            if let copy = lastCopy(within: nil) { return copy }
            guard error.remoteError == nil, let copy = await exported() else { throw error }
            return copy
        }
    }

    /// Records a copy that is current.
    func keep(_ copy: MappedSnapshot) {
        let new = Last(copy: copy, age: clock.stopwatch())
        // The previous copy is released outside the lock.
        _ = last.withLock { last in
            defer { last = new }
            return last
        }
    }

    /// - Parameter age: the maximum time since the copy was found to be current; nil for any
    private func lastCopy(within age: Duration?) -> MappedSnapshot? {
        last.withLock { last in
            guard let copy = last?.copy, let currentAge = last?.age else { return nil }
            if copy.isCurrent {
                last?.age = clock.stopwatch()
            } else if let age, currentAge() > age {
                return nil
            }
            return copy
        }
    }

    /// The exported file. It is read once, because the agent does not change it while it cannot be reached.
    private func exported() async -> MappedSnapshot? {
        if let copy = last.withLock({ $0?.copy }) { return copy }
        let (namespace, directory) = (calls.config.namespace, directory)
        guard let copy = await onOwnThread({ directory.flatMap { ExportedFile.read(namespace, in: $0) } }) else {
            return nil
        }
        return last.withLock { last in
            if last == nil { last = Last(copy: copy, age: nil) }
            return last?.copy
        }
    }
}

/// The values that a repository has last seen of the models in its collection. It performs no I/O.
///
/// Values come from snapshots, from the replies to writes, and from conflicts. They may arrive in any order. A value
/// never replaces one of a newer revision, so a model that was just saved is not replaced by an older snapshot.
struct KnownModels {
    typealias Position = SnapshotReceiver.Position

    private struct Entry {
        var value: JSONValue
        var revision: Int
        /// The place among the entries with the same revision: the ``version`` that the entry caused.
        var order: Int
    }

    private var epoch: String?
    /// Incremented by each change.
    private(set) var version = 0
    // Keys are paths, because two strings that differ only in Unicode normalization are equal, and two names are not.
    private var entries: [JSONPath: Entry] = [:]
    /// The revisions in which models were deleted. Entries are removed once a newer snapshot was read.
    private var deletions: [JSONPath: Int] = [:]

    /// The value last seen at a path; nil if none was seen, or if the model was last seen to be absent.
    func value(at path: JSONPath) -> JSONValue? { entries[path]?.value }

    /// Takes the value at a path that a write or a conflict has revealed, which may be newer than all snapshots.
    mutating func learn(_ value: JSONValue?, at path: JSONPath, in position: Position) {
        begin(position)
        version += 1
        guard position.revision >= revision(at: path) else { return }
        entries[path] = value.map { Entry(value: $0, revision: position.revision, order: version) }
        deletions[path] = value == nil ? position.revision : nil
    }

    /// Takes the value at a path in a snapshot.
    /// - Returns: the newest known value, which may be newer than the snapshot.
    mutating func read(_ value: JSONValue?, at path: JSONPath, in position: Position) -> JSONValue? {
        begin(position)
        version += 1
        if position.revision >= revision(at: path) {
            entries[path] = value.map { Entry(value: $0, revision: position.revision, order: version) }
        }
        forgetDeletions(through: position.revision)
        return self.value(at: path)
    }

    /// The position of a copy. A file that the agent has exported does not contain its revision. Its values are older than
    /// all others.
    func position(of copy: MappedSnapshot) -> Position {
        copy.revision > 0 ? copy.position : Position(revision: 0, epoch: epoch ?? copy.epoch)
    }

    /// Takes the whole collection in a snapshot.
    /// - Parameter members: the paths and values of the models, in order.
    /// - Returns: the newest known models in the same order. Models that are newer than the snapshot follow at the end, in
    ///   the order in which they were learned.
    mutating func read(
        _ members: [(path: JSONPath, value: JSONValue)], in position: Position
    ) -> [(path: JSONPath, value: JSONValue)] {
        begin(position)
        version += 1
        var newer = entries.filter { $0.value.revision > position.revision }
        var newest: [(path: JSONPath, value: JSONValue)] = []
        var current: [JSONPath: Entry] = [:]
        current.reserveCapacity(members.count)
        for (path, value) in members {
            if let entry = newer.removeValue(forKey: path) {
                current[path] = entry
                newest.append((path, entry.value))
            } else if deletions[path].map({ $0 <= position.revision }) ?? true {
                current[path] = Entry(value: value, revision: position.revision, order: version)
                newest.append((path, value))
            }
        }
        for (path, entry) in newer.sorted(by: {
            ($0.value.revision, $0.value.order) < ($1.value.revision, $1.value.order)
        }) {
            current[path] = entry
            newest.append((path, entry.value))
        }
        entries = current
        forgetDeletions(through: position.revision)
        return newest
    }

    /// Forgets the values of another epoch, because their revisions cannot be compared.
    private mutating func begin(_ position: Position) {
        if epoch != position.epoch {
            let version = version
            self = KnownModels()
            self.version = version
        }
        epoch = position.epoch
    }

    private func revision(at path: JSONPath) -> Int { entries[path]?.revision ?? deletions[path] ?? 0 }

    private mutating func forgetDeletions(through revision: Int) {
        if !deletions.isEmpty { deletions = deletions.filter { $0.value > revision } }
    }
}

/// The calls of a repository. A client has ways to make them that a type of a test does not have.
struct RepositoryCalls: Sendable {
    let config: any ConfigCalls
    /// Nil for a type of a test.
    private let client: ConfigClient?

    init(_ config: any ConfigCalls) { (self.config, client) = (config, config as? ConfigClient) }

    /// The directory to which the agent exports its documents; nil for none.
    var exportDirectory: String? { client.flatMap { ExportedFile.defaultDirectory(nextTo: $0.client.socket) } }

    /// Returns a mapped snapshot that is current, without a request if the client has one.
    /// - Parameter known: the position of a change that the snapshot must contain; nil for none.
    func localCopy(
        since known: SnapshotReceiver.Position? = nil
    ) async throws(LarderClientError) -> MappedSnapshot {
        guard let client else { return try await outdatedCopy() }
        do throws(LarderClientError) {
            return try await client.mappedSnapshot(sharesMemory: true, since: known)
        } catch {
            // A client of a file has no mapped snapshots.
            if error.code == .unsupported { return try await outdatedCopy() }
            // A relayed connection cannot pass files. The document is then requested as JSON.
            guard error.code == .protocolViolation else { throw error }
            return try await client.mappedSnapshot(sharesMemory: false, since: known)
        }
    }

    /// Returns a copy of the document that counts as outdated at once, because no event says when it is.
    private func outdatedCopy() async throws(LarderClientError) -> MappedSnapshot {
        let token = InvalidationToken()
        token.invalidate()
        return try await config.copiedSnapshot(token)
    }

    /// Makes changes as one. There must be at least one.
    func apply(
        _ changes: [ConfigApply.Change], isDryRun: Bool = false
    ) async throws(LarderClientError) -> ConfigChange {
        if let client {
            let parameters = ConfigApply.Parameters(changes, namespace: client.namespace, isDryRun: isDryRun)
            return ConfigChange(try await client.client.call(ConfigApply.self, parameters))
        }
        var list = ConfigChangeList()
        for change in changes { list.append(change) }
        guard let change = try await config.apply(list, ifRevision: .any, reason: nil, dryRun: isDryRun) else {
            throw LarderClientError(
                .protocolViolation, "\(type(of: config)).apply returned nil for a list of changes",
                advice: "return the revision that contains them")
        }
        return change
    }

    /// Reads the value at a path.
    func snapshot(at path: JSONPath) async throws(LarderClientError) -> LarderSnapshot {
        try await config.snapshot(at: path.description, maximumAge: nil, staleIfError: nil)
    }

    /// Whether the value at a path is that of an override. False for a type of a test, which cannot explain its values.
    /// A deletion then treats a value that remains at the path as one of a lower layer.
    func isOverridden(_ path: JSONPath) async throws(LarderClientError) -> Bool {
        guard let client else { return false }
        return try await client.explain(at: path.pointer).winner == "override"
    }
}

extension MappedSnapshot {
    var position: SnapshotReceiver.Position { SnapshotReceiver.Position(revision: revision, epoch: epoch) }

    /// Returns the object member at a path; nil for none. Parses a large one off the actor of the caller.
    func parsedMember(at path: JSONPath) async throws(LarderClientError) -> JSONValue? {
        withText(at: path.segments) { $0?.count ?? 0 } <= maximumSizeOnCaller
            ? try member(at: path) : try await memberConcurrently(at: path)
    }

    private func memberConcurrently(at path: JSONPath) async throws(LarderClientError) -> JSONValue? {
        try await concurrently { () async throws(LarderClientError) in
            try member(at: path)
        }
    }

    /// Returns the object member at a path; nil for none.
    func member(at path: JSONPath) throws(LarderClientError) -> JSONValue? {
        guard let text = withText(at: path.segments, { $0.map { [UInt8]($0) } }) else { return nil }
        do throws(JSONError) {
            return try JSONValue(parsing: text)
        } catch {
            throw LarderClientError(.protocolViolation, "the snapshot file is damaged: \(error)")
        }
    }
}
