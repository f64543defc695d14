import FoundationEssentials
import LarderEncoding
import LarderJSON
import LarderProtocol

/// The models of a repository's collection, and the values in it that are not models.
public struct RepositoryContents<Model: Sendable>: Sendable {
    /// A value that could not be decoded.
    public struct Failure: Sendable {
        /// The name of the value's member in the collection.
        public let name: String
        /// Why the value could not be decoded.
        public let error: LarderClientError

        /// Creates a failure from its properties, for example for tests.
        public init(name: String, error: LarderClientError) {
            self.name = name
            self.error = error
        }
    }

    /// The models, in the order of the document.
    public let models: [Model]
    /// The values that could not be decoded, in the order of the document.
    public let failures: [Failure]

    /// Creates contents from its properties, for example for tests.
    public init(models: [Model], failures: [Failure] = []) {
        self.models = models
        self.failures = failures
    }

    /// The models.
    /// - Throws: the error of the first value that could not be decoded.
    var decoded: [Model] {
        get throws(LarderClientError) {
            if let failure = failures.first { throw failure.error }
            return models
        }
    }
}

/// The maximum size of a value that is parsed, encoded or decoded on the actor of the caller, which takes less than a
/// millisecond.
let maximumSizeOnCaller = 4096

/// Converts between the models of a collection and the values at their paths.
struct ModelCoding<Model: Codable & Identifiable & Sendable>: Sendable
where Model.ID: CustomStringConvertible & Sendable {
    /// The segments of the path of the collection; an error if it is malformed.
    let segments: Result<[String], LarderClientError>
    private let namespace: String

    init(at path: String, namespace: String) {
        self.namespace = namespace
        segments = Result { () throws(LarderClientError) in try JSONPath(argument: path).segments }
    }

    func path(of id: Model.ID) throws(LarderClientError) -> JSONPath {
        JSONPath(try segments.get() + [id.description])
    }

    /// The paths and values of the members of a collection, in order.
    func members(
        of collection: JSONValue?
    ) throws(LarderClientError) -> [(path: JSONPath, value: JSONValue)] {
        guard let collection else { return [] }
        let segments = try segments.get()
        guard collection.kind == .object else {
            throw LarderClientError(
                .decodingFailed, "the value at \"\(JSONPath(segments))\" is \(collection.kind.article), not an object",
                advice: "pass the path of an object whose members are the models")
        }
        return collection.members.map { (JSONPath(segments + [$0.name]), $0.value) }
    }

    /// Decodes the members of a collection.
    func contents(of members: [(path: JSONPath, value: JSONValue)]) -> RepositoryContents<Model> {
        let decoder = JSONDecoder()
        var (models, failures) = ([Model](), [RepositoryContents<Model>.Failure]())
        models.reserveCapacity(members.count)
        for (path, value) in members {
            do throws(LarderClientError) {
                models.append(try model(value, at: path, decoder))
            } catch {
                failures.append(.init(name: path.segments.last ?? "", error: error))
            }
        }
        return RepositoryContents(models: models, failures: failures)
    }

    /// Decodes a model, on the actor of the caller if the model is small.
    func decoded(_ value: JSONValue, at path: JSONPath) async throws(LarderClientError) -> Model {
        value.textSize <= maximumSizeOnCaller
            ? try model(value, at: path) : try await decodedConcurrently(value, at: path)
    }

    private func decodedConcurrently(
        _ value: JSONValue, at path: JSONPath
    ) async throws(LarderClientError) -> Model {
        try await concurrently { () async throws(LarderClientError) in
            try model(value, at: path)
        }
    }

    func model(
        _ value: JSONValue, at path: JSONPath, _ decoder: JSONDecoder = JSONDecoder()
    ) throws(LarderClientError) -> Model {
        let place = ValuePlace(path: path.description, namespace: namespace)
        let model = try value.decode(Model.self, decoder: decoder, at: place)
        guard path.segments.last?.isSpelled(as: model.id.description) == true else {
            throw LarderClientError(
                .decodingFailed, "the model at \"\(path)\" has the id \"\(model.id)\", which is not its name",
                advice: "rename the member or change the id")
        }
        return model
    }

    /// Encodes a model. Null members are left out, because no member of a configuration is null.
    func encoded(_ model: Model) throws(LarderClientError) -> JSONValue {
        let value = try JSONValue(encoding: model)
        return value.kind == .object ? MergePatch.apply(value, to: nil) : value
    }

    /// Returns the value that saves a model, and the changes from the current value to it, on condition that the current
    /// value is still there. There are no changes if the two are equal.
    ///
    /// Works on the actor of the caller if the current value is small. The size of a new model is not known before it is
    /// encoded.
    func changes(
        saving model: Model, over old: JSONValue?, at path: JSONPath
    ) async throws(LarderClientError) -> (new: JSONValue, changes: [ConfigApply.Change]) {
        if let old, old.textSize <= maximumSizeOnCaller { return try compared(model, to: old, at: path) }
        return try await comparedConcurrently(model, to: old, at: path)
    }

    private func comparedConcurrently(
        _ model: Model, to old: JSONValue?, at path: JSONPath
    ) async throws(LarderClientError) -> (new: JSONValue, changes: [ConfigApply.Change]) {
        try await concurrently { () async throws(LarderClientError) in
            try compared(model, to: old, at: path)
        }
    }

    private func compared(
        _ model: Model, to old: JSONValue?, at path: JSONPath
    ) throws(LarderClientError) -> (new: JSONValue, changes: [ConfigApply.Change]) {
        let new = try merged(encoded(model), over: old, at: path)
        var changes = ModelChanges.exact(from: old, to: new, at: path.segments)
        if !changes.isEmpty {
            changes.append(ConfigApply.Change(.test, at: path, ifValue: old.map { .equals($0) } ?? .absent))
        }
        return (new, changes)
    }

    /// Returns the value that saves a model: its encoding, and the members of the current value that the type does not
    /// have.
    func merged(
        _ new: JSONValue, over old: JSONValue?, at path: JSONPath
    ) throws(LarderClientError) -> JSONValue {
        guard let old, let current = try? model(old, at: path) else { return new }
        return ModelChanges.merged(old, before: try encoded(current), after: new)
    }

    /// Encodes models off the actor of the caller.
    func chunk(
        of models: [Model]
    ) async throws(LarderClientError) -> ModelChunk {
        try await concurrently { () async throws(LarderClientError) in
            var chunk = ModelChunk()
            let segments = try segments.get()
            for model in models { chunk.add(try encoded(model), at: JSONPath(segments + [model.id.description])) }
            return chunk
        }
    }
}
