import FoundationEssentials
import LarderEncoding
import LarderJSON
import LarderProtocol
import Synchronization

/// A typed collection of models in the configuration, with reads from a local copy.
///
/// The collection is the object at a path. Each model is the member whose name is the `description` of the model's id,
/// which must be different for different ids, as it is for `String`, `Int` and `UUID`. Names may have any characters,
/// and may be empty.
///
/// ```swift
/// struct Ticket: Codable, Identifiable {
///     var id: String
///     var title: String
///     var owner: String?
/// }
///
/// let tickets = LarderRepository(client.config, at: "tickets", of: Ticket.self)
/// try await tickets.save(Ticket(id: "7", title: "Replace the disk"))
/// if var ticket = try await tickets.load("7") {
///     ticket.owner = "ada"
///     try await tickets.save(ticket)
/// }
/// for ticket in try await tickets.all() where ticket.owner == nil {
///     try await tickets.delete(ticket.id)
/// }
/// ```
///
/// **Reading.** ``load(_:policy:)``, ``all(policy:)`` and ``contents(policy:)`` read the client's mapped snapshot
/// (``ConfigClient/mappedSnapshot(sharesMemory:)``). They need no request while it is current. While the agent is
/// unreachable, they read the last copy that this repository has or, without one, the file that the agent exports to
/// `current/` next to its socket, so that a program starts without the agent; a ``RepositoryReadPolicy`` changes this.
/// They also have the values that this repository has saved, and that ``changes`` has delivered. Writes need the agent.
///
/// **Writing.** ``save(_:ifUnchanged:)`` and ``delete(_:ifUnchanged:)`` change a model only if its value is the one that this
/// repository last saw: in `load`, `all`, ``changes``, a conflict, or its own writes. Otherwise they throw `remote` with
/// `conflict`. The repository then has the newer value, so that the caller can load the model, make its change again, and
/// save. Tasks that share a repository also share what it has seen. A task that must not overwrite what another task of
/// the program has read meanwhile uses a repository of its own. Await a write before the next one of the same model;
/// otherwise the second one conflicts with the first one.
///
/// Writes at the same time share requests: while one is in flight, the others wait and are then sent together.
///
/// A repository is a class and not an actor, because a read must not wait while another task decodes the collection.
/// Nothing in it must happen in the order of the calls: the revisions decide which of two values is newer. Collections
/// and large models are decoded and encoded off the actor of the caller.
public final class LarderRepository<Model: Codable & Identifiable & Sendable>: Sendable
where Model.ID: CustomStringConvertible & Sendable {
    /// The path of the collection.
    public let path: String
    /// The name of the namespace.
    public let namespace: String

    private let calls: RepositoryCalls
    private let coding: ModelCoding<Model>
    private let writer: ModelWriter
    private let known = Mutex(KnownModels())
    private let copies: LocalCopies

    /// Creates a repository. It does not connect to the agent before one of its methods is called. If the path is
    /// malformed, the methods throw `invalidArgument`.
    /// - Parameters:
    ///   - config: the namespace, such as `client.config` or `client.config["shop"]`; in tests any ``ConfigCalls``,
    ///     whose `apply` must make the changes and compare their conditions.
    ///   - path: the path of the collection; empty for the whole document. The object need not exist.
    ///   - type: the type of the models.
    ///   - currentDirectory: the directory of the files that the agent exports; nil for `current/` next to the socket,
    ///     and for none if `config` is not a client.
    public init(
        _ config: any ConfigCalls, at path: String, of type: Model.Type = Model.self, currentDirectory: String? = nil
    ) {
        calls = RepositoryCalls(config)
        self.path = path
        namespace = config.namespace
        coding = ModelCoding(at: path, namespace: config.namespace)
        writer = ModelWriter(calls)
        copies = LocalCopies(calls, directory: currentDirectory)
    }

    // MARK: Reading

    /// Reads a model from the local copy.
    /// - Parameters:
    ///   - id: the id of the model.
    ///   - policy: the copy to read.
    /// - Returns: the model; nil if no model has this id.
    /// - Throws: `decodingFailed` if the value does not match the type, or if it has another id than its name. The
    ///   errors of a call, such as `unreachable`, only if there is no copy yet.
    public func load(
        _ id: Model.ID, policy: RepositoryReadPolicy = .networkFirst
    ) async throws(LarderClientError) -> Model? {
        let path = try coding.path(of: id)
        guard let value = try await read(path, policy) else { return nil }
        return try await coding.decoded(value, at: path)
    }

    /// Reads all models from the local copy, in the order of the members in the document. That order has no meaning and can
    /// change, so sort the models.
    /// - Parameter policy: the copy to read.
    /// - Returns: the models; empty if there is no object at the path.
    /// - Throws: `decodingFailed` if the value at the path is not an object, or if one of the models cannot be decoded.
    ///   The error names its path. ``contents(policy:)`` still returns the others. Otherwise as ``load(_:policy:)``.
    public func all(policy: RepositoryReadPolicy = .networkFirst) async throws(LarderClientError) -> [Model] {
        try await contents(policy: policy).decoded
    }

    /// Reads all models from the local copy, in the order of the document, and skips those that cannot be decoded.
    ///
    /// ```swift
    /// let contents = try await tickets.contents()
    /// print(contents.models.count, contents.failures.count)
    /// ```
    /// - Parameter policy: the copy to read.
    /// - Returns: the models, and an error for each value that is not one.
    /// - Throws: `decodingFailed` if the value at the path is not an object. Otherwise as ``load(_:policy:)``.
    public func contents(
        policy: RepositoryReadPolicy = .networkFirst
    ) async throws(LarderClientError) -> RepositoryContents<Model> {
        let segments = try coding.segments.get()
        return try await contents(of: copies.copy(policy), at: segments)
    }

    /// The models as a stream: all models at once, then all models each time that one of them changes.
    ///
    /// ```swift
    /// for try await all in tickets.changes {
    ///     print(all.map(\.title))
    /// }
    /// ```
    ///
    /// The stream has the guarantees of ``LarderSnapshots``: a slow consumer gets the newest models, and the stream
    /// survives restarts of the agent. If the agent cannot be reached at the start, the first element is the local copy.
    /// It delivers only collections that differ from the previous one. If a model cannot be decoded, `next()` throws
    /// `decodingFailed`, which ends a `for` loop. The call after it waits for other models. Most programs use
    /// ``contentChanges``, which skips such a model.
    public var changes: RepositoryStream<[Model]> {
        stream(at: path) { value, position async throws(LarderClientError) in
            try await self.received(value, in: position).decoded
        }
    }

    /// The models as a stream, as ``changes``, which skips the models that cannot be decoded and reports them.
    ///
    /// ```swift
    /// for try await contents in tickets.contentChanges {
    ///     print(contents.models.count, contents.failures.map(\.name))
    /// }
    /// ```
    public var contentChanges: RepositoryStream<RepositoryContents<Model>> {
        stream(at: path) { value, position async throws(LarderClientError) in
            try await self.received(value, in: position)
        }
    }

    /// One model as a stream: its value at once, then each other value. Nil while no model has the id.
    ///
    /// ```swift
    /// for try await ticket in tickets.changes(of: "7") {
    ///     print(ticket?.title ?? "no ticket")
    /// }
    /// ```
    ///
    /// The stream has the guarantees of ``changes``. Other models of the collection are not sent.
    public func changes(of id: Model.ID) -> RepositoryStream<Model?> {
        // A stream of the malformed path of the collection throws the error.
        guard let path = try? coding.path(of: id) else {
            return stream(at: self.path) { _, _ in nil }
        }
        return stream(at: path.description) { value, position async throws(LarderClientError) in
            self.known.withLock { _ = $0.read(value, at: path, in: position) }
            guard let value else { return nil }
            return try await self.coding.decoded(value, at: path)
        }
    }

    // MARK: Writing

    /// Saves a model, unless another client has changed it since this repository last saw it.
    ///
    /// Only the differences are written, as overrides. An unchanged model needs no request. Members that are nil in
    /// the model but not in the configuration are removed, also if a lower layer provides them. Members that the type
    /// does not have stay as they are. A new model replaces whatever lower layers have at its path. A record that cannot be
    /// decoded is replaced as a whole once this repository has read it; before that, the save is a `conflict`.
    /// - Parameters:
    ///   - model: the model.
    ///   - ifUnchanged: false to save the model also if another client has changed it. The model is then compared with
    ///     the newer value and saved again, at most eight times.
    /// - Throws: `remote` with `conflict` if the model has another value than the one this repository last saw, or if
    ///   it exists and the repository has not seen it. `cancelled` if the task was cancelled before the model was sent.
    ///   `invalidArgument` if the model cannot be encoded. Also the errors of
    ///   ``ConfigClient/set(_:at:ttl:)``.
    public func save(_ model: Model, ifUnchanged: Bool = true) async throws(LarderClientError) {
        for _ in 1..<(ifUnchanged ? 1 : Self.maxAttempts) {
            do throws(LarderClientError) {
                return try await saveOnce(model)
            } catch {
                // The conflict has revealed the current value.
                guard error.remoteError?.code == .conflict else { throw error }
            }
        }
        try await saveOnce(model)
    }

    private static var maxAttempts: Int { 8 }

    private func saveOnce(_ model: Model) async throws(LarderClientError) {
        let path = try coding.path(of: model.id)
        let old = known.withLock { $0.value(at: path) }
        let (new, changes) = try await coding.changes(saving: model, over: old, at: path)
        if changes.isEmpty { return }
        try await write(changes, of: new, at: path)
    }

    /// Deletes a model, unless another client has changed it since this repository last saw it. If this repository has
    /// not seen the model, it reads it from the local copy first. An unknown id is not an error.
    ///
    /// The overrides of the model are removed. If the model then still exists, because a lower layer provides it, it is
    /// hidden with a null in a second request.
    /// - Parameters:
    ///   - id: the id of the model.
    ///   - ifUnchanged: false to delete the model also if another client has changed it.
    /// - Throws: `remote` with `conflict` if the model has another value than the one this repository last saw;
    ///   otherwise as ``save(_:ifUnchanged:)``.
    public func delete(_ id: Model.ID, ifUnchanged: Bool = true) async throws(LarderClientError) {
        let path = try coding.path(of: id)
        var old = known.withLock { $0.value(at: path) }
        if old == nil { old = try await read(path, .networkFirst) }
        guard let old else { return }
        let change = ConfigApply.Change(.unset, at: path, ifValue: ifUnchanged ? .equals(old) : .any)
        try await write([change], of: nil, at: path, deleting: old)
    }

    /// Deletes models as ``delete(_:ifUnchanged:)`` deletes one. The deletions share requests.
    ///
    /// ```swift
    /// try await tickets.deleteAll(["1", "2"])
    /// try await tickets.deleteAll(["3", "4"], ifUnchanged: false)
    /// ```
    /// - Parameters:
    ///   - ids: the ids of the models.
    ///   - ifUnchanged: false to delete models also if another client has changed them.
    /// - Throws: the first error. The other models are deleted nevertheless.
    public func deleteAll(
        _ ids: some Sequence<Model.ID>, ifUnchanged: Bool = true
    ) async throws(LarderClientError) {
        try await ids.forEachTogether { id async throws(LarderClientError) in
            try await self.delete(id, ifUnchanged: ifUnchanged)
        }
    }

    /// Saves all models of a sequence, whatever their current values are.
    ///
    /// ```swift
    /// let rows = [("8", "Order disks"), ("9", "Call Ada")]
    /// try await tickets.importAll(rows.lazy.map { Ticket(id: $0.0, title: $0.1) }) { saved, total in
    ///     print("\(saved) of \(total ?? 0)")
    /// }
    /// ```
    ///
    /// The sequence is consumed lazily, one chunk at a time. Each chunk is saved with one `config.apply`, or with
    /// several if it is larger than 512 KiB or existing models differ in many members. Models that already have their
    /// values are not sent, so running an import again changes nothing twice. Other than ``save(_:ifUnchanged:)``, an
    /// import also removes members that the type does not have. If ids repeat, the last model counts.
    ///
    /// If the task is cancelled, the import stops after the current chunk.
    /// - Parameters:
    ///   - models: the models.
    ///   - total: the number of models for `progress`; nil if unknown. For a random-access collection, its count is the
    ///     default.
    ///   - chunkSize: the number of models to save together, from 1 to 1,000.
    ///   - progress: called after each chunk with the number of models saved so far, including those that had their
    ///     values already, and the total.
    /// - Throws: the errors of ``save(_:ifUnchanged:)`` except `conflict`, with the number of models saved in
    ///   ``LarderClientError/savedCount``. Models of the chunk that failed may have been saved, too. ``all(policy:)``
    ///   has the models that were saved, even if the agent cannot be reached any more.
    public func importAll(
        _ models: some Sequence<Model>, total: Int? = nil, chunkSize: Int = 1000,
        progress: (_ saved: Int, _ total: Int?) -> Void = { _, _ in }
    ) async throws(LarderClientError) {
        _ = try await imported(models, total: total, chunkSize: chunkSize, progress: progress)
    }

    /// Replaces the whole collection: saves all models of a sequence as ``importAll(_:total:chunkSize:progress:)`` does,
    /// and then deletes the other models of the collection.
    ///
    /// ```swift
    /// try await tickets.replaceAll(with: [Ticket(id: "1", title: "Light")])
    /// ```
    ///
    /// The replacement is not atomic: readers can see the collection with models of both, or with only a part of the new
    /// ones. To replace a collection in one revision, pass the whole document to ``ConfigClient/push(_:version:force:)``, or
    /// all overrides of the namespace to ``ConfigClient/replaceAll(with:ttl:)``.
    ///
    /// Parameters and errors are those of an import. A model that another client changes while it is deleted stays, and
    /// the error is `remote` with `conflict`.
    public func replaceAll(
        with models: some Sequence<Model>, total: Int? = nil, chunkSize: Int = 1000,
        progress: (_ saved: Int, _ total: Int?) -> Void = { _, _ in }
    ) async throws(LarderClientError) {
        let importer = try await imported(models, total: total, chunkSize: chunkSize, progress: progress)
        let others = try await importer.others(at: coding.segments.get())
        try await others.forEachTogether { path, value async throws(LarderClientError) in
            let change = ConfigApply.Change(.unset, at: path, ifValue: .equals(value))
            try await self.write([change], of: nil, at: path, deleting: value)
        }
    }

    private func imported(
        _ models: some Sequence<Model>, total: Int?, chunkSize: Int,
        progress: (_ saved: Int, _ total: Int?) -> Void
    ) async throws(LarderClientError) -> ModelImporter {
        try CallArguments.check(chunkSize, "chunkSize", in: 1...ConfigApply.Parameters.maxChanges)
        let importer = ModelImporter(calls)
        let total = total ?? (models as? any RandomAccessCollection)?.count
        var iterator = models.makeIterator()
        var saved = 0
        do throws(LarderClientError) {
            while true {
                var models: [Model] = []
                while models.count < chunkSize, let model = iterator.next() { models.append(model) }
                if models.isEmpty { break }
                let chunk = try await coding.chunk(of: models)
                if Task.isCancelled { throw LarderClientError(.cancelled, "the import was cancelled") }
                try await ModelImporter.uncancelled { () async throws(LarderClientError) in
                    try await self.save(chunk, by: importer)
                }
                saved += models.count
                progress(saved, total)
            }
            try await ModelImporter.uncancelled { () async throws(LarderClientError) in try await importer.check() }
            return importer
        } catch {
            if error.code == .cancelled {
                try? await ModelImporter.uncancelled { () async throws(LarderClientError) in
                    try await importer.check()
                }
            }
            let count = total.map { "\(saved) of \($0)" } ?? "\(saved)"
            throw LarderClientError(
                error.code, "\(error.reason); \(count) models were saved", advice: error.advice,
                remoteError: error.remoteError, systemError: error.systemError, savedCount: saved,
                mayHaveBeenExecuted: error.mayHaveBeenExecuted)
        }
    }

    private func save(_ chunk: ModelChunk, by importer: ModelImporter) async throws(LarderClientError) {
        try await concurrently { () async throws(LarderClientError) in
            do throws(LarderClientError) {
                try await importer.write(chunk)
            } catch {
                if let copy = await importer.copy { copies.keep(copy) }
                throw error
            }
            if let copy = await importer.copy { copies.keep(copy) }
            let position = await importer.position
            known.withLock { known in
                for (path, value) in chunk.models { known.learn(value, at: path, in: position) }
            }
        }
    }

    /// Sends changes, and learns the value that the model then has.
    private func write(
        _ changes: [ConfigApply.Change], of value: JSONValue?, at path: JSONPath, deleting deleted: JSONValue? = nil
    ) async throws(LarderClientError) {
        do throws(LarderClientError) {
            let change = try await writer.write(changes, at: path, deleting: deleted)
            let position = SnapshotReceiver.Position(revision: change.revision, epoch: change.epoch)
            known.withLock { $0.learn(value, at: path, in: position) }
        } catch {
            if let conflict = error.remoteError?.conflict, conflict.path == path {
                let position = SnapshotReceiver.Position(revision: conflict.revision, epoch: conflict.epoch)
                if conflict.isMasked {
                    // The conflict hides a secret, which a client that may read can read.
                    await readAgain(path)
                } else {
                    known.withLock { $0.learn(conflict.value, at: path, in: position) }
                }
            }
            throw error
        }
    }

    /// Reads the value of one model from the agent, and learns it. Ignores a failure, because the caller reports another
    /// error.
    private func readAgain(_ path: JSONPath) async {
        do throws(LarderClientError) {
            let read = try await calls.snapshot(at: path)
            let position = SnapshotReceiver.Position(revision: read.revision, epoch: read.epoch)
            known.withLock { $0.learn(read.value, at: path, in: position) }
        } catch {}
    }

    // MARK: The local copy

    /// Returns the newest known value of a model; nil for none.
    private func read(
        _ path: JSONPath, _ policy: RepositoryReadPolicy
    ) async throws(LarderClientError) -> JSONValue? {
        let copy = try await copies.copy(policy)
        let value = try await copy.parsedMember(at: path)
        return known.withLock { $0.read(value, at: path, in: $0.position(of: copy)) }
    }

    /// Decodes the collection of a copy.
    private func contents(
        of copy: MappedSnapshot, at segments: [String]
    ) async throws(LarderClientError) -> RepositoryContents<Model> {
        try await concurrently { () async throws(LarderClientError) in
            let members = try coding.members(of: copy.member(at: JSONPath(segments)))
            return coding.contents(of: newest(members) { $0.position(of: copy) })
        }
    }

    /// Decodes the collection of a snapshot that ``changes`` delivers.
    private func received(
        _ collection: JSONValue?, in position: SnapshotReceiver.Position
    ) async throws(LarderClientError) -> RepositoryContents<Model> {
        try await concurrently { () async throws(LarderClientError) in
            let members = try coding.members(of: collection)
            _ = newest(members) { _ in position }
            return coding.contents(of: members)
        }
    }

    /// Takes the whole collection in a snapshot, as ``KnownModels/read(_:in:)`` does. A large collection takes several
    /// milliseconds. A copy of the known models is therefore changed, so that other tasks do not wait for the lock.
    private func newest(
        _ members: [(path: JSONPath, value: JSONValue)], in position: (KnownModels) -> SnapshotReceiver.Position
    ) -> [(path: JSONPath, value: JSONValue)] {
        for _ in 0..<3 {
            let before = known.withLock { $0 }
            var next = before
            let newest = next.read(members, in: position(before))
            let isReplaced = known.withLock { known in
                guard known.version == before.version else { return false }
                known = next
                return true
            }
            if isReplaced { return newest }
        }
        return known.withLock { $0.read(members, in: position($0)) }
    }

    /// A stream of the values at a path.
    private func stream<Element: Sendable>(
        at path: String, _ decode: @escaping RepositoryStream<Element>.Decode
    ) -> RepositoryStream<Element> {
        let snapshots = calls.config.snapshots(at: path, mode: .patch)
        return RepositoryStream(
            snapshots,
            local: {
                do throws(LarderClientError) {
                    let path = try JSONPath(argument: path)
                    let copy = try await self.copies.copy(.cacheOnly)
                    return (try await copy.parsedMember(at: path), self.known.withLock { $0.position(of: copy) })
                } catch {
                    return nil
                }
            }, decode)
    }
}
