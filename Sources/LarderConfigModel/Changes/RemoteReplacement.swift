import LarderJSON

/// A replacement of the remote document.
struct RemoteReplacement: Sendable {
    let document: SourceDocument
    /// The location of the source, or ``SourceOrigin/push``.
    let origin: String
    /// Whether to skip the version and deletion checks and to end the hold of a rollback.
    let force: Bool
    /// The maximum percentage of members that the document may remove; nil for no limit.
    let maximumDeletion: Int?
    /// In milliseconds since 1970.
    let now: Int

    /// Replaces the remote document in `layers`.
    /// - Returns: nil if there is nothing to record: content, version, origin and seen versions are the same, and no
    ///   hold ends. The document gets the new validator even then.
    /// - Throws: `rejected`; `layers` is unchanged then.
    func apply(to layers: inout Layers) throws(ConfigError) -> ChangeEffect? {
        guard document.value.kind == .object else {
            throw ConfigError(
                .rejected, "the document is \(document.value.kind.article); a configuration must be a JSON object")
        }
        let source = document.source ?? origin
        let old = layers.remote
        let isSameSeries = Self.isComparable(source, old?.source)
        var seen = old?.seenVersions ?? SeenVersions()
        if !isSameSeries || !Self.isComparable(source, seen.source ?? source) { seen = SeenVersions() }
        if !force { try seen.check(document, from: source) }
        var next = layers
        next.remote = RemoteDocument(
            removals: document.removals, document: document.value, version: document.version,
            validator: document.validator, origin: origin, source: source, updatedAt: now, pushedBy: document.pushedBy,
            reason: document.reason, seenVersions: seen.adding(document.version, from: source, force: force))
        try next.follow(layers.rules, now: now)
        let edits = document.edits.flatMap { $0.replacements(in: old?.document) }
        let isSame = edits.map(\.isEmpty) ?? next.remote?.hasSameContent(as: old) ?? false
        let mayDelete = edits?.contains { $0.value.isEmptyString } ?? true
        if !isSame, mayDelete, let maximumDeletion, let old, let new = next.remote {
            let version = document.versionPath ?? JSONPath(["version"])
            let deletion = MassDeletion(from: old.document, to: new.document, version: version)
            try Self.check(deletion, maximumDeletion)
        }
        if isSame, let old {
            // The document keeps the order of members in which it was published, because the digest depends on that
            // order. After a restart, the digest on disk shows whether this content was published.
            next.remote?.removals = old.removals
            next.remote?.document = old.document
            next.remote?.experiments = old.experiments
            next.remote?.updatedAt = old.updatedAt
        }
        let endsHold =
            layers.hold.map { force || Self.ends($0, next.remote, isSame: isSame) } ?? false
        if endsHold {
            next.hold = nil
            try next.follow(layers.rules, now: now)
        }
        layers = next
        let isNothingNew =
            isSame && old?.version == document.version && old?.origin.isSpelled(as: origin) ?? false
            && old?.source == source && !endsHold
            && old?.seenVersions == next.remote?.seenVersions
        guard !isNothingNew, let remote = next.remote else { return nil }
        var effect = ChangeEffect(operation: .remote(remote, endsHold: endsHold))
        if let edits, !endsHold, edits.allSatisfy({ layers.shows(.remote, at: $0.path) }) {
            effect.difference = .scalars(edits)
        }
        return effect
    }

    private static func check(_ deletion: MassDeletion, _ maximum: Int) throws(ConfigError) {
        guard deletion.exceeds(percent: maximum) else { return }
        throw ConfigError(
            .rejected,
            "the document would remove \(deletion.removed) of \(deletion.members) members, more than \(maximum) % "
                + "(maximumDeletionPercent); use force if that is intended",
            canForce: true, deletion: deletion)
    }

    /// Whether the versions of two sources can be compared. Versions of two different sources cannot. The version of a
    /// push can be compared with that of any source.
    private static func isComparable(_ source: String, _ other: String?) -> Bool {
        source == other || source == SourceOrigin.push && other != nil || other == SourceOrigin.push
    }

    /// Whether a document that is not forced ends a hold.
    /// - Parameter isSame: whether the document has the same content as the previous live document, which did not end
    ///   the hold
    private static func ends(_ hold: RollbackHold, _ remote: RemoteDocument?, isSame: Bool) -> Bool {
        guard hold.rule == .untilNewer, let remote else { return false }
        guard let rejected = hold.rejected else { return !isSame }
        if let old = rejected.version, old.isOrdered(with: old) {
            guard let new = remote.version, Self.isComparable(remote.source, rejected.source) else { return false }
            return old.isOlder(than: new)
        }
        if let old = rejected.version, let new = remote.version, Self.isComparable(remote.source, rejected.source) {
            return new != old
        }
        return !isSame && RollbackHold.Rejected(remote).digest != rejected.digest
    }
}

extension SourceDocument.Edits {
    /// The replacements whose value differs from the one in `document`; nil if these edits do not start from
    /// `document`.
    fileprivate func replacements(in document: JSONValue?) -> [JSONValue.Replacement]? {
        guard let document, document.isSameDocument(as: base) else { return nil }
        return replacements.filter { document.value(at: JSONPath($0.path)) != $0.value }
    }
}

extension Layers {
    /// Whether the layer's value at a path is also the resolved value: there are no locks and no hold, and no higher
    /// layer has an effect there.
    fileprivate func shows(_ layer: ConfigLayer, at path: [String]) -> Bool {
        hold == nil && rules.locks.isEmpty
            && ConfigLayer.allCases.drop { $0 != layer }.dropFirst().allSatisfy {
                effect(of: $0, at: path) == .unchanged
            }
    }
}

extension JSONValue {
    fileprivate var isEmptyString: Bool { kind == .string && textSize == 2 }
}
