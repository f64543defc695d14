import LarderJSON
import LarderProtocol

/// The models that an import saves together.
struct ModelChunk: Sendable {
    /// The number of models that were added, including those that later ones with the same id have replaced.
    private(set) var count = 0
    /// The paths and encoded values of the models, each path once.
    private(set) var models: [(path: JSONPath, value: JSONValue)] = []
    private var indexes: [JSONPath: Int] = [:]

    mutating func add(_ value: JSONValue, at path: JSONPath) {
        count += 1
        if let index = indexes[path] {
            models[index].value = value
        } else {
            indexes[path] = models.count
            models.append((path, value))
        }
    }
}

/// Writes chunks of models, whatever their current values are.
struct ModelImporter: Sendable {
    let client: LarderClient
    let namespace: String

    /// Sets the models of a chunk to their values. Models that already have their values are not sent.
    /// - Parameter known: the position of the previous chunk; nil for the first one.
    /// - Returns: the position that contains the models.
    func write(
        _ chunk: ModelChunk, since known: SnapshotReceiver.Position?
    ) async throws(LarderClientError) -> SnapshotReceiver.Position {
        // No copy has the empty epoch, so the first copy is requested from the agent. A cached copy may lack a change
        // that the agent has already acknowledged.
        var position = known ?? SnapshotReceiver.Position(revision: 0, epoch: "")
        // A new model is sent as one change, so that a request has as many models as possible. If overrides had hidden
        // values of lower layers at its path, these are merged into the new model. The second pass removes them.
        for _ in 0..<2 {
            let copy = try await client.config.localCopy(of: namespace, since: position)
            guard let change = try await apply(Self.portions(of: chunk, over: copy)) else { return copy.position }
            position = SnapshotReceiver.Position(revision: change.revision, epoch: change.epoch)
        }
        return position
    }

    /// - Returns: the last change; nil if there was nothing to change.
    private func apply(_ portions: [ChangePortion]) async throws(LarderClientError) -> ConfigChange? {
        var last: ConfigChange?
        for portion in portions {
            last = try await client.call(
                ConfigApply.self, ConfigApply.Parameters(portion.changes, namespace: namespace))
        }
        return last
    }

    private static func portions(
        of chunk: ModelChunk, over copy: MappedSnapshot
    ) throws(LarderClientError) -> [ChangePortion] {
        var groups: [[ConfigApply.Change]] = []
        for (path, value) in chunk.models {
            let old = try copy.member(at: path)
            if old == value { continue }
            groups.append(
                old?.kind == .object
                    ? ModelChanges.exact(from: old, to: value, at: path.segments)
                    : [ConfigApply.Change(.set(value), at: path)])
        }
        return ChangePortion.portions(of: groups)
    }
}
