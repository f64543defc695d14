package import LarderHTTPSemantics
package import LarderJSON

/// The layers of a namespace, lowest first: `defaults`, `host`, `remote`, `experiment`, `override`. With them come the
/// hold of a rollback and the rules for merging.
package struct Layers: Sendable {
    /// The layers below the overrides, and the rules.
    private struct Content: Sendable {
        var files: [FileLayer: FileDocument] = [:]
        var remote: RemoteDocument?
        var experiment = ExperimentLayer()
        var hold: RollbackHold?
        var rules = LayerRules()
    }

    /// `@unchecked Sendable`, because of copy-on-write: only the sole owner of a reference changes the content.
    private final class Storage: @unchecked Sendable {
        // A release build does not check for overlapping accesses. A commit makes several accesses, and each check takes
        // 63 instructions. The checks are not needed: while `_modify` changes the content, its `Layers` is accessed
        // exclusively and is the sole owner. Debug builds, which the tests use, do check.
        #if !DEBUG
            @exclusivity(unchecked)
        #endif
        var content: Content
        init(_ content: Content) { self.content = content }
    }

    /// A class, so that a copy costs one reference count. Every publication copies the layers for the history and for
    /// the disk.
    private var storage: Storage
    /// The values that clients have set. They are outside the storage, because they change most often: a `set` copies
    /// no other layer.
    package var override: OverrideLayer

    package init(
        host: FileDocument? = nil, remote: RemoteDocument? = nil, override: OverrideLayer = OverrideLayer()
    ) {
        let files = host.map { [FileLayer.host: $0] } ?? [:]
        storage = Storage(Content(files: files, remote: remote))
        self.override = override
    }

    private var content: Content {
        get { storage.content }
        _modify {
            if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.content) }
            yield &storage.content
        }
    }

    package subscript(layer: FileLayer) -> FileDocument? {
        get { storage.content.files[layer] }
        _modify { yield &content.files[layer] }
    }
    package var remote: RemoteDocument? {
        get { storage.content.remote }
        _modify { yield &content.remote }
    }
    /// Whether there is a remote document. This and the next three members avoid a copy of the document.
    package var hasRemote: Bool { storage.content.remote != nil }
    /// The validator of the remote document; nil if the document is from another source.
    /// - Parameter source: the identity of the source
    package func validator(ofSource source: String) -> Validator? {
        guard let remote = storage.content.remote, remote.source == source else { return nil }
        return remote.validator
    }
    /// Whether a value is the remote document itself, not a copy.
    package func sharesRemoteDocument(with value: JSONValue) -> Bool {
        storage.content.remote.map { value.isSameDocument(as: $0.document) } ?? false
    }
    /// The size of the remote document as text, in bytes; 0 without a document.
    package var remoteTextSize: Int { storage.content.remote?.document.textSize ?? 0 }
    /// An upper bound of the memory of a copy of all documents and overlays, live and held, in bytes. Overrides count
    /// with their text only, because their values are also in the snapshot.
    package var copiedBytes: Int {
        let hold = storage.content.hold
        let files = storage.content.files.values + (hold?.files.values.compactMap(\.content) ?? [])
        let remotes = [storage.content.remote, hold?.remote?.content]
        return override.bytes + experiment.overlays.reduce(0) { $0 + $1.values.detachedMemory }
            + files.reduce(0) { $0 + $1.document.detachedMemory }
            + remotes.reduce(0) {
                $0 + ($1?.document.detachedMemory ?? 0) + ($1?.experiments?.list.detachedMemory ?? 0)
            }
    }
    /// The overlays in effect, from the settings and from the remote document that is shown.
    package var experiment: ExperimentLayer {
        get { storage.content.experiment }
        _modify { yield &content.experiment }
    }
    /// The layers with no overrides.
    package var withoutOverrides: Layers {
        if override.isEmpty { return self }
        var lower = self
        lower.override = OverrideLayer()
        return lower
    }
    /// The hold of a rollback; nil for none.
    package var hold: RollbackHold? {
        get { storage.content.hold }
        _modify { yield &content.hold }
    }
    /// The rules in effect. Of these, only the locks are stored on disk, because the locks and the layers together
    /// determine the snapshot.
    package var rules: LayerRules {
        get { storage.content.rules }
        _modify { yield &content.rules }
    }

    /// Whether any path is locked.
    package var hasLocks: Bool { !storage.content.rules.locks.paths.isEmpty }
    /// The locked paths, without a copy of all rules.
    package var locks: LockedPaths { storage.content.rules.locks }
    /// The rule of ``hold``; nil for no hold.
    package var holdRule: HoldRule? {
        // `hold?.rule` copies the whole hold. Usually there is no hold, so that case is checked first.
        if case .none = storage.content.hold { return nil }
        return storage.content.hold?.rule
    }
}

/// The rules in the settings by which a namespace's layers are merged.
package struct LayerRules: Sendable, Equatable {
    package var locks = LockedPaths()
    package var experiments = ExperimentRules()
    /// The unit for which the experiments of this host are selected.
    package var unit = ""

    package init(
        locks: LockedPaths = LockedPaths(), experiments: ExperimentRules = ExperimentRules(), unit: String = ""
    ) {
        self.locks = locks
        self.experiments = experiments
        self.unit = unit
    }
}

/// A change of the layers as the journal records it. `indirect`, so that a copy costs only one reference count: each
/// value is copied more often than it is created.
package indirect enum LayerOperation: Sendable {
    case set(OverrideEntry)
    case unset(path: [String])
    /// Removes these overrides, which have expired. Others that have expired stay if the schema has kept them.
    case expireOverrides([ExpiringOverride])
    /// Removes the overrides that expire at or before this time, in milliseconds since 1970. Only earlier versions of
    /// this program wrote this operation.
    case expire(at: Int)
    /// Replaces the remote document, and may end the hold of a rollback.
    case remote(RemoteDocument, endsHold: Bool)
    /// Replaces the remote document, and holds the previous one; see ``HoldRule/rollout``. Only earlier versions of
    /// this program wrote this operation.
    case rollout(RemoteDocument, revision: Int, since: Int)
    case dropRemote
    /// Replaces all overrides and the hold of a rollback; nil for no hold.
    case rollback(overrides: OverrideLayer, RollbackHold?)
    case release
    /// Replaces the experiment layer. It contains the experiments that apply after the operations before this one,
    /// which a replay cannot compute, because it does not have the settings.
    case experiment(ExperimentLayer)

    package func apply(to layers: inout Layers) {
        switch self {
        case .set(let entry): layers.override.set(entry)
        case .unset(let path): _ = layers.override.unset(path)
        case .expireOverrides(let expired):
            for override in expired { _ = layers.override.expire(override.path, expiringAt: override.expiresAt) }
        case .expire(let time): _ = layers.override.expire(at: time)
        case .remote(let remote, let endsHold):
            layers.remote = remote
            if endsHold { layers.hold = nil }
        case .rollout(let remote, let revision, let since):
            var hold = layers.hold ?? RollbackHold(revision: revision, since: since)
            if hold.remote == nil { hold.remote = RollbackHold.Layer(content: layers.remote) }
            hold.rule = .rollout
            layers.hold = hold
            layers.remote = remote
        case .dropRemote: layers.dropRemote()
        case .rollback(let overrides, let hold):
            layers.override = overrides
            layers.hold = hold
        case .release: layers.hold = nil
        case .experiment(let layer): layers.experiment = layer
        }
    }
}

extension Layers {
    /// Replaces the location of a source by the identity of the source in state that an earlier version of this program
    /// wrote. The validator, the seen versions and the hold of a rollback then stay valid after an update.
    /// - Parameters:
    ///   - identity: the identity of the source in the settings
    ///   - location: its location
    /// - Returns: whether anything was replaced; such state must be written to disk, because the settings may name
    ///   another source at the same location at the next start
    package mutating func adopt(_ identity: String, at location: String) -> Bool {
        var hasChanged = false
        func adopt(_ source: inout String) {
            if source != location { return }
            source = identity
            hasChanged = true
        }
        func adopt(_ remote: inout RemoteDocument) {
            adopt(&remote.source)
            if var source = remote.seenVersions.source {
                adopt(&source)
                remote.seenVersions.source = source
            }
        }
        if var remote {
            adopt(&remote)
            if hasChanged { self.remote = remote }
        }
        if var hold {
            let before = hasChanged
            hasChanged = false
            if var rejected = hold.rejected {
                adopt(&rejected.source)
                hold.rejected = rejected
            }
            if var content = hold.remote?.content {
                adopt(&content)
                hold.remote?.content = content
            }
            if hasChanged { self.hold = hold }
            hasChanged = hasChanged || before
        }
        return hasChanged
    }
}
