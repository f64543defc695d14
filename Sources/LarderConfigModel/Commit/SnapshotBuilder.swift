import LarderJSON

/// What layers resolve to.
package struct Resolution: Sendable {
    /// The current snapshot if nothing differs from it.
    package let snapshot: ConfigSnapshot
    /// The digest of what the layers resolve to. Members may stand in another order than in the snapshot, for which nothing is
    /// published.
    package let digest: SnapshotDigest
}

/// Makes the next snapshot, on any thread: edits the current one if only scalars have changed, and merges all layers otherwise.
struct SnapshotBuilder: Sendable {
    let layers: Layers
    /// By what the layers resolve to something else than the current snapshot.
    let difference: ResolvedDifference
    let current: ConfigSnapshot
    /// Whether the value of the current snapshot is the remote document itself, because no other layer has content.
    let isRemoteDocument: Bool
    let revision: Int
    /// In milliseconds since 1970.
    let now: Int

    @concurrent
    func buildConcurrently() async -> Resolution { build() }

    func build() -> Resolution {
        let edited = difference.replacements.flatMap {
            isRemoteDocument ? layers.remote?.document : current.value.replacing($0)
        }
        let value = edited ?? layers.resolvedSharing()
        assert(
            edited == nil || value.compactText == layers.resolved().compactText,
            "the edited snapshot differs from the merged layers")
        // Only texts of the same length can have the same content: both are compact.
        let isSame =
            current.revision > 0 && value.textSize == current.bytes && !isKnownToDiffer && value == current.value
        if !isSame {
            let next = ConfigSnapshot(value: value, revision: revision, publishedAt: now)
            return Resolution(snapshot: next, digest: next.contentDigest)
        }
        let digest = value.hasSameText(as: current.value) ? current.contentDigest : SnapshotDigest(of: value)
        return Resolution(snapshot: current, digest: digest)
    }

    /// Whether the value is known to differ without a comparison of all of it: by its only replacement or by the last one, which
    /// counts whatever those before it are.
    private var isKnownToDiffer: Bool {
        switch difference {
        case .none, .any: return false
        case .scalar(_, let differs): return differs
        case .scalars(let replacements):
            guard let last = replacements.last else { return false }
            return current.value.value(at: JSONPath(last.path)) != last.value
        }
    }
}
