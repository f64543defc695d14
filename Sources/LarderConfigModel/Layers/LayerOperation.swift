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
