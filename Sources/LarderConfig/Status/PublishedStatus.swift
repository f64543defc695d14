package import LarderConfigModel
import LarderEncoding
import LarderHTTPSemantics
import LarderJSON

/// The status of a namespace and its layers at one point in time. Every publication has one, and a request reads only
/// the members that it needs. Times are milliseconds since 1970.
package struct PublishedStatus: Sendable {
    /// A class, so that a copy of the published status is cheap.
    private final class Shared: Sendable {
        let status: NamespaceStatus
        /// The number of changes since the start.
        let changes: Int

        init(_ status: NamespaceStatus, changes: Int) {
            self.status = status
            self.changes = changes
        }
    }

    /// Copies share it until one of them changes.
    private var shared: Shared
    private(set) var layers: Layers
    /// Snapshots published since the start.
    package private(set) var publishes = 0

    init(_ status: NamespaceStatus, holding layers: Layers) {
        shared = Shared(status, changes: 0)
        self.layers = layers
    }

    /// The part of the status that does not follow from the layers.
    var current: NamespaceStatus { shared.status }

    mutating func change(_ body: (inout NamespaceStatus) -> Void) {
        var status = shared.status
        body(&status)
        shared = Shared(status, changes: shared.changes + 1)
    }

    /// The same status with committed layers.
    /// - Parameter isPublication: whether a new snapshot is published with them
    func committed(_ layers: Layers, isPublication: Bool) -> PublishedStatus {
        var status = self
        status.layers = layers
        if isPublication { status.publishes += 1 }
        return status
    }

    /// How often ``current`` has changed since the start.
    var changes: Int { shared.changes }

    /// Whether ``freshness``, ``rejection`` and ``isUnwritable`` are the same as in another status.
    func hasSameCondition(as other: PublishedStatus) -> Bool {
        shared === other.shared
            || freshness == other.freshness && isUnwritable == other.isUnwritable && rejection == other.rejection
    }

    package var freshness: Freshness { shared.status.freshness }
    /// The freshness, ignoring a refresh in progress.
    package var freshnessAtRest: Freshness { shared.status.freshnessAtRest }
    /// When ``freshness`` last changed.
    package var since: Int { shared.status.since }
    /// The last problem with the source or the disk; nil once both work again.
    package var lastError: NamespaceStatus.Problem? { shared.status.lastError }
    /// Why the state of the namespace cannot be written to disk; nil if it can.
    package var writeError: NamespaceStatus.Problem? { shared.status.writeError }
    /// Whether the state of the namespace cannot be written to disk.
    package var isUnwritable: Bool { shared.status.isUnwritable }
    /// Whether the copy of the schema could not be written.
    var lacksSchemaCopy: Bool { shared.status.hasStorageProblem(.schema) }
    package var counters: NamespaceStatus.Counters { shared.status.counters }

    // MARK: Source

    /// The remote source; nil for none.
    package var source: NamespaceStatus.Source? { shared.status.source }
    package var hasSource: Bool { shared.status.hasRemote }
    /// Whether there is a remote source but no remote document yet.
    package var awaitsSource: Bool { hasSource && !layers.hasRemote }
    /// When the remote document was last known to be current: the time of the last successful request or, for a long
    /// poll, of its response. If no request has succeeded since the start, the time at which the document last changed.
    /// The latter time is not used for a document of another origin, such as a push. Nil if no time is known.
    package var confirmedAt: Int? {
        guard let source else { return nil }
        return source.confirmedAt ?? layers.remote.flatMap { $0.source == source.identity ? $0.updatedAt : nil }
    }
    /// The upstream version of the remote document; nil for none.
    package var upstreamVersion: String? { layers.remote?.version?.text }
    /// The entity tag of the remote document; nil for none.
    package var etag: String? { layers.remote?.validator?.etag }

    // MARK: Rejected content

    /// The last rejected document; nil once another document is accepted.
    package var rejected: NamespaceStatus.Rejection? { shared.status.rejected }
    /// The last document that was rejected because it would remove too many members; nil once another document is
    /// accepted.
    package var quarantine: NamespaceStatus.Quarantine? { shared.status.quarantine }
    package var schema: SchemaStatus { shared.status.schema }
    /// Why the schema file cannot be used; nil if it can, or if the settings name none. The previous schema, if any,
    /// stays in force.
    package var schemaFileProblem: String? { shared.status.schemaFileProblem }
    /// Why new content was rejected last, at most 200 characters; nil if no content is rejected now.
    package var rejection: String? { shared.status.rejection }
    /// Whether new content is rejected now.
    package var isRejecting: Bool { shared.status.schema.rejection != nil || rejected != nil }

    /// The content that was rejected last; nil if no content is rejected now. The reason contains no values of the
    /// configuration and has at most 200 characters.
    package var newestRejection: (version: String?, reason: String, at: Int)? {
        let change = shared.status.schema.rejection
        if let rejected, change.map({ $0.at <= rejected.at }) ?? true {
            return (rejected.version, rejected.reason.excerpt, rejected.at)
        }
        return change.map { ($0.version, ($0.problems.first?.text ?? "it violates the schema").excerpt, $0.at) }
    }

    // MARK: Layers

    /// The number of overrides.
    package var overrides: Int { layers.override.count }

    /// The names of the experiments whose overlays apply on this host.
    package var activeExperiments: [String] { layers.experiment.overlays.map(\.name) }

    /// The hold of a rollback; nil for none.
    package var hold: RollbackHold? { layers.hold }

    /// The content of a layer: whether there is any, the size of its document in bytes, and when it last changed.
    package func content(of layer: ConfigLayer) -> (isPresent: Bool, bytes: Int, updatedAt: Int?) {
        switch layer {
        case .defaults, .host: content(of: layer.fileLayer.flatMap { layers[$0] })
        case .remote: (layers.hasRemote, layers.remoteTextSize, layers.remote?.updatedAt)
        case .experiment:
            (!layers.experiment.overlays.isEmpty, layers.experiment.bytes, layers.experiment.updatedAt)
        case .override: (!layers.override.isEmpty, layers.override.bytes, layers.override.updatedAt)
        }
    }

    private func content(of files: FileDocument?) -> (isPresent: Bool, bytes: Int, updatedAt: Int?) {
        guard let files, files.document.count > 0 else { return (false, 0, nil) }
        return (true, files.document.textSize, files.updatedAt)
    }

    /// The location of a layer's source; for the experiment layer, the names of the overlays that apply on this host.
    package func origin(of layer: ConfigLayer) -> String {
        switch layer {
        case .defaults, .host: layer.fileLayer.flatMap { shared.status.files[$0] } ?? ""
        case .remote: layers.remote?.origin ?? source?.location ?? ""
        case .experiment: layers.experiment.overlays.map(\.name).joined(separator: ", ")
        case .override: "config.set"
        }
    }

    /// Why the last read of a layer failed, or why its changes are not watched; for the experiment layer, why the
    /// experiments of the remote document are left out. Nil for no problem.
    package func problem(of layer: ConfigLayer) -> String? {
        switch layer {
        case .defaults, .host:
            layer.fileLayer.flatMap { shared.status.fileProblems[$0] } ?? shared.status.watchProblems[layer]
        case .remote: source?.lastError?.error.message ?? shared.status.watchProblems[layer]
        case .experiment: layers.experiment.problem
        case .override: nil
        }
    }
}
