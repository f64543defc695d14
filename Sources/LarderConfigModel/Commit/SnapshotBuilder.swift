import LarderJSON

/// The result of resolving the layers.
package struct Resolution: Sendable {
    /// The next snapshot, or the current one itself if the value has not changed.
    package let snapshot: ConfigSnapshot
    /// The digest of the resolved layers. It differs from the digest of ``snapshot`` if only the order of members has
    /// changed, because the current snapshot then stays.
    package let digest: SnapshotDigest
}

/// Builds the next snapshot, on any thread. It edits the current value if only scalars have changed, and otherwise
/// merges all layers.
struct SnapshotBuilder: Sendable {
    let layers: Layers
    /// The difference between the current snapshot and the resolved layers.
    let difference: ResolvedDifference
    let current: ConfigSnapshot
    /// Whether the value of the current snapshot is the remote document itself, not a copy. This is so if no other
    /// layer has content, neither before nor after the changes.
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
        // The texts of the new and the current value are compact, so equal values have texts of equal size.
        let isSame =
            current.revision > 0 && value.textSize == current.bytes && !isKnownToDiffer && value == current.value
        if !isSame {
            let next = ConfigSnapshot(value: value, revision: revision, publishedAt: now)
            return Resolution(snapshot: next, digest: next.contentDigest)
        }
        let digest = value.hasSameText(as: current.value) ? current.contentDigest : SnapshotDigest(of: value)
        return Resolution(snapshot: current, digest: digest)
    }

    /// Whether a replacement shows that the new value differs from the current one, so that the whole values need not
    /// be compared. Of several replacements, only the last one is checked, because no later one can undo it.
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
