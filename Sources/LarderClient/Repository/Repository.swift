import FoundationEssentials
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
/// let tickets = Repository(client, at: "tickets", of: Ticket.self)
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
/// **Reading.** ``load(_:)`` and ``all()`` read the client's mapped snapshot
/// (``ConfigClient/snapshot(namespace:mapped:)``). They need no request while it is current. While the agent is
/// unreachable, they read the last copy that this repository has. They also have the values that this repository has
/// saved, and that ``changes`` has delivered.
///
/// **Writing.** ``save(_:)`` and ``delete(_:)`` change a model only if its value is the one that this repository last
/// saw: in `load`, `all`, ``changes``, a conflict, or its own writes. Otherwise they throw `remote` with `conflict`.
/// The repository then has the newer value, so that the caller can load the model, make its change again, and save.
/// Tasks that share a repository also share what it has seen. A task that must not overwrite what another task of the
/// program has read meanwhile uses a repository of its own. Await a write before the next one of the same model;
/// otherwise the second one conflicts with the first one.
///
/// Writes at the same time share requests: while one is in flight, the others wait and are then sent together.
public final class Repository<Model: Codable & Identifiable & Sendable>: Sendable
where Model.ID: CustomStringConvertible & Sendable {
    /// The path of the collection.
    public let path: String
    /// The name of the namespace.
    public let namespace: String

    private let client: LarderClient
    /// The segments of ``path``; an error if it is malformed.
    private let segments: Result<[String], LarderClientError>
    private let writer: ModelWriter
    private let known = Mutex(KnownModels())
    private let lastCopy = Mutex<MappedSnapshot?>(nil)

    /// Creates a repository. It does not connect to the agent before one of its methods is called. If the path is
    /// malformed, the methods throw `invalidArgument`.
    /// - Parameters:
    ///   - client: the connection to the agent.
    ///   - path: the path of the collection; empty for the whole document. The object need not exist.
    ///   - type: the type of the models.
    ///   - namespace: the name of the namespace. This process needs the rights `read` and, to save, `write` there.
    public init(
        _ client: LarderClient, at path: String, of type: Model.Type = Model.self,
        namespace: String = defaultNamespace
    ) {
        self.client = client
        self.path = path
        self.namespace = namespace
        segments = Result { () throws(LarderClientError) in try JSONPath(argument: path).segments }
        writer = ModelWriter(client: client, namespace: namespace)
    }

    // MARK: Reading

    /// Reads a model from the local copy.
    /// - Returns: the model; nil if no model has this id.
    /// - Throws: `decodingFailed` if the value does not match the type, or if it has another id than its name. The
    ///   errors of a call, such as `unreachable`, only if the repository has no copy yet.
    public func load(_ id: Model.ID) async throws(LarderClientError) -> Model? {
        let path = try path(of: id)
        guard let value = try await read(path) else { return nil }
        return try Self.model(value, at: path)
    }

    /// Reads all models from the local copy, in the order of the document.
    /// - Returns: the models; empty if there is no object at the path.
    /// - Throws: `decodingFailed` if the value at the path is not an object, or if one of the models cannot be decoded.
    ///   The error names its path. ``load(_:)`` still returns the others. Otherwise as ``load(_:)``.
    public func all() async throws(LarderClientError) -> [Model] {
        let segments = try segments.get()
        let copy = try await copy()
        let members = try Self.members(of: copy.member(at: JSONPath(segments)), at: segments)
        let position = copy.position
        var models: [Model] = []
        for (path, value) in known.withLock({ $0.read(members, in: position) }) {
            models.append(try Self.model(value, at: path))
        }
        return models
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
    /// survives restarts of the agent. It delivers only collections that differ from the previous one.
    public var changes: Changes { Changes(repository: self) }

    // MARK: Writing

    /// Saves a model, unless another client has changed it since this repository last saw it.
    ///
    /// Only the differences are written, as overrides. An unchanged model needs no request. Members that are nil in
    /// the model but not in the configuration are removed, also if a lower layer provides them. Members that the type
    /// does not have stay as they are. A new model replaces whatever lower layers have at its path.
    /// - Throws: `remote` with `conflict` if the model has another value than the one this repository last saw, or if
    ///   it exists and the repository has not seen it. `cancelled` if the task was cancelled before the model was sent.
    ///   `invalidArgument` if the model cannot be encoded. Also the errors of
    ///   ``ConfigClient/set(_:at:ttl:namespace:)``.
    public func save(_ model: Model) async throws(LarderClientError) {
        let path = try path(of: model.id)
        let old = known.withLock { $0.value(at: path) }
        let new = try Self.merged(Self.encoded(model), over: old, at: path)
        var changes = ModelChanges.exact(from: old, to: new, at: path.segments)
        if changes.isEmpty { return }
        changes.append(ConfigApply.Change(.test, at: path, ifValue: old.map { .equals($0) } ?? .absent))
        try await write(changes, of: new, at: path)
    }

    /// Deletes a model, unless another client has changed it since this repository last saw it. If this repository has
    /// not seen the model, it reads it from the local copy first. An unknown id is not an error.
    ///
    /// The overrides of the model are removed. If the model then still exists, because a lower layer provides it, it is
    /// hidden with a null in a second request.
    /// - Throws: `remote` with `conflict` if the model has another value than the one this repository last saw;
    ///   otherwise as ``save(_:)``.
    public func delete(_ id: Model.ID) async throws(LarderClientError) {
        let path = try path(of: id)
        var old = known.withLock { $0.value(at: path) }
        if old == nil { old = try await read(path) }
        guard let old else { return }
        let change = ConfigApply.Change(.unset, at: path, ifValue: .equals(old))
        try await write([change], of: nil, at: path, deleting: old)
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
    /// values are not sent, so running an import again changes nothing twice. Other than ``save(_:)``, an import also
    /// removes members that the type does not have. If ids repeat, the last model counts.
    ///
    /// If the task is cancelled, the import stops after the current chunk.
    /// - Parameters:
    ///   - models: the models.
    ///   - total: the number of models for `progress`; nil if unknown. For a random-access collection, its count is the
    ///     default.
    ///   - chunkSize: the number of models to save together, from 1 to 1,000.
    ///   - progress: called after each chunk with the number of models saved so far, including those that had their
    ///     values already, and the total.
    /// - Throws: the errors of ``save(_:)`` except `conflict`, with the number of models saved in
    ///   ``LarderClientError/savedCount``. Models of the chunk that failed may have been saved, too.
    public func importAll(
        _ models: some Sequence<Model>, total: Int? = nil, chunkSize: Int = 1000,
        progress: (_ saved: Int, _ total: Int?) -> Void = { _, _ in }
    ) async throws(LarderClientError) {
        guard (1...ConfigApply.Parameters.maxChanges).contains(chunkSize) else {
            throw LarderClientError(
                .invalidArgument,
                "the chunk size must be from 1 to \(ConfigApply.Parameters.maxChanges), not \(chunkSize)")
        }
        let total = total ?? (models as? any RandomAccessCollection)?.count
        var iterator = models.makeIterator()
        var saved = 0
        var position: SnapshotReceiver.Position?
        do throws(LarderClientError) {
            while true {
                var chunk = ModelChunk()
                while chunk.count < chunkSize, let model = iterator.next() {
                    chunk.add(try Self.encoded(model), at: try path(of: model.id))
                }
                if chunk.count == 0 { return }
                if Task.isCancelled { throw LarderClientError(.cancelled, "the import was cancelled") }
                position = try await importChunk(chunk, since: position)
                saved += chunk.count
                progress(saved, total)
            }
        } catch {
            let count = total.map { "\(saved) of \($0)" } ?? "\(saved)"
            throw LarderClientError(
                error.code, "\(error.reason); \(count) models were saved", advice: error.advice,
                remoteError: error.remoteError, systemError: error.systemError, savedCount: saved)
        }
    }

    private func importChunk(
        _ chunk: ModelChunk, since position: SnapshotReceiver.Position?
    ) async throws(LarderClientError) -> SnapshotReceiver.Position {
        let importer = ModelImporter(client: client, namespace: namespace)
        // A separate task writes the chunk, so that a cancellation does not leave the result of a request unknown.
        let writing = Task { () async -> Result<SnapshotReceiver.Position, LarderClientError> in
            do throws(LarderClientError) {
                return .success(try await importer.write(chunk, since: position))
            } catch {
                return .failure(error)
            }
        }
        let written = try await writing.value.get()
        known.withLock { known in
            for (path, value) in chunk.models { known.learn(value, at: path, in: written) }
        }
        return written
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
        let parameters = ConfigGet.Parameters(path: path, namespace: namespace)
        do throws(LarderClientError) {
            let read = try await client.call(ConfigGet.self, parameters)
            let position = SnapshotReceiver.Position(revision: read.revision, epoch: read.epoch)
            known.withLock { $0.learn(read.value, at: path, in: position) }
        } catch {}
    }

    // MARK: The local copy

    /// Returns the current copy of the namespace, or the last one while the agent is unreachable.
    private func copy() async throws(LarderClientError) -> MappedSnapshot {
        do throws(LarderClientError) {
            let copy = try await client.config.localCopy(of: namespace)
            // The previous copy is released outside the lock.
            _ = lastCopy.withLock { last in
                defer { last = copy }
                return last
            }
            return copy
        } catch {
            guard error.isRetryable, let last = lastCopy.withLock({ $0 }) else { throw error }
            return last
        }
    }

    /// Returns the newest known value of a model; nil for none.
    private func read(_ path: JSONPath) async throws(LarderClientError) -> JSONValue? {
        let copy = try await copy()
        let value = try copy.member(at: path)
        let position = copy.position
        return known.withLock { $0.read(value, at: path, in: position) }
    }

    /// Takes the collection of a snapshot that ``changes`` delivers.
    func receive(_ collection: JSONValue, in position: SnapshotReceiver.Position) throws(LarderClientError) -> [Model] {
        let members = try Self.members(of: collection, at: segments.get())
        known.withLock { _ = $0.read(members, in: position) }
        var models: [Model] = []
        for (path, value) in members { models.append(try Self.model(value, at: path)) }
        return models
    }

    /// A stream of the snapshots of the collection.
    var snapshots: LarderSnapshots { client.config.snapshots(at: path, namespace: namespace, mode: .patch) }

    // MARK: Models and JSON

    private func path(of id: Model.ID) throws(LarderClientError) -> JSONPath {
        JSONPath(try segments.get() + [id.description])
    }

    private static func members(
        of collection: JSONValue?, at segments: [String]
    ) throws(LarderClientError) -> [(path: JSONPath, value: JSONValue)] {
        guard let collection else { return [] }
        guard collection.kind == .object else {
            throw LarderClientError(
                .decodingFailed, "the value at \"\(JSONPath(segments))\" is \(collection.kind.article), not an object")
        }
        return collection.members.map { (JSONPath(segments + [$0.name]), $0.value) }
    }

    private static func model(_ value: JSONValue, at path: JSONPath) throws(LarderClientError) -> Model {
        let model: Model
        do throws(LarderClientError) {
            model = try value.decode(Model.self, decoder: JSONDecoder())
        } catch {
            throw LarderClientError(.decodingFailed, "at \"\(path)\": \(error.reason)")
        }
        guard path.segments.last?.isSpelled(as: model.id.description) == true else {
            throw LarderClientError(
                .decodingFailed, "the model at \"\(path)\" has the id \"\(model.id)\", which is not its name",
                advice: "rename the member or change the id")
        }
        return model
    }

    /// Encodes a model. Null members are left out, because no member of a configuration is null.
    private static func encoded(_ model: Model) throws(LarderClientError) -> JSONValue {
        let value = try JSONValue(encoding: model)
        return value.kind == .object ? MergePatch.apply(value, to: nil) : value
    }

    /// Returns the value that saves a model: its encoding, and the members of the current value that the type does not
    /// have.
    private static func merged(
        _ new: JSONValue, over old: JSONValue?, at path: JSONPath
    ) throws(LarderClientError) -> JSONValue {
        guard let old, let current = try? model(old, at: path) else { return new }
        return ModelChanges.merged(old, before: try encoded(current), after: new)
    }
}

extension ConfigClient {
    /// Returns a mapped snapshot that is current, without a request if the client has one.
    /// - Parameter known: the position of a change that the snapshot must contain; nil for none.
    func localCopy(
        of namespace: String, since known: SnapshotReceiver.Position? = nil
    ) async throws(LarderClientError) -> MappedSnapshot {
        do throws(LarderClientError) {
            return try await snapshot(namespace: namespace, mapped: true, since: known)
        } catch {
            // A relayed connection cannot pass files. The document is then requested as JSON.
            guard error.code == .protocolViolation else { throw error }
            return try await snapshot(namespace: namespace, mapped: false, since: known)
        }
    }
}

extension MappedSnapshot {
    var position: SnapshotReceiver.Position { SnapshotReceiver.Position(revision: revision, epoch: epoch) }

    /// Returns the object member at a path; nil for none.
    func member(at path: JSONPath) throws(LarderClientError) -> JSONValue? {
        guard let text = bytes(at: path.pointer) else { return nil }
        do throws(JSONError) {
            return try JSONValue(parsing: text)
        } catch {
            throw LarderClientError(.protocolViolation, "the snapshot file is damaged: \(error)")
        }
    }
}

extension Repository {
    /// A stream of the models of a repository; see ``Repository/changes``.
    public struct Changes: AsyncSequence, Sendable {
        /// All models, in the order of the document.
        public typealias Element = [Model]
        /// The error that ends the stream.
        public typealias Failure = LarderClientError

        let repository: Repository

        /// Starts an iteration. It subscribes when the first models are requested.
        public func makeAsyncIterator() -> AsyncIterator {
            AsyncIterator(repository, repository.snapshots.makeAsyncIterator())
        }

        /// An iteration over the models.
        public struct AsyncIterator: AsyncIteratorProtocol {
            private let repository: Repository
            private var snapshots: LarderSnapshots.AsyncIterator
            /// The collection that was delivered last; nil before the first one.
            private var delivered: JSONValue?

            init(_ repository: Repository, _ snapshots: LarderSnapshots.AsyncIterator) {
                self.repository = repository
                self.snapshots = snapshots
            }

            /// Waits for the next models. Returns nil once the task is cancelled.
            /// - Throws: `decodingFailed` if the models cannot be decoded; the next call then waits for other models.
            ///   Also an error that a retry cannot resolve, such as `remote` with `unknownNamespace`.
            public mutating func next(
                isolation actor: isolated (any Actor)? = #isolation
            ) async throws(LarderClientError) -> [Model]? {
                while let snapshot = try await snapshots.next(isolation: actor) {
                    let collection = snapshot.value ?? .emptyObject
                    if collection == delivered { continue }
                    delivered = collection
                    return try repository.receive(
                        collection, in: SnapshotReceiver.Position(revision: snapshot.revision, epoch: snapshot.epoch))
                }
                return nil
            }
        }
    }
}
