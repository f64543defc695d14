import LarderEncoding
import LarderJSON

/// A change that the store is asked to make, and what it does to the layers. Indirect, because it is copied more often than
/// made.
indirect enum LayerChange: Sendable {
    case set(path: [String], value: JSONValue, timeToLive: Duration?, by: Peer?)
    case unset(path: [String], by: Peer?)
    /// Ends these overrides, except those that were replaced or removed since.
    case expireOverrides([ExpiringOverride])
    case files(FileLayer, ComposedPatch)
    /// The settings say other rules.
    case rules(LayerRules)
    /// The settings no longer name the source that the remote layer came from.
    case dropRemote
    case remote(SourceDocument, origin: String, force: Bool, isPush: Bool)
    /// The content of an earlier snapshot, held where sources say something else.
    case rollback(to: Generation, hold: HoldRule?, by: Peer?)
    /// The end of what a rollback holds.
    case release(by: Peer?)

    /// What a change did.
    enum Effect {
        /// Nothing: the layers already said so.
        case none
        /// The layer changed.
        /// - Parameters:
        ///   - replacements: how the configuration changes, if only scalars are replaced by others
        ///   - lifetime: of the override that was set
        case changed(
            JournalRecord.Operation?, replacements: [JSONValue.Replacement]? = nil, lifetime: OverrideLifetime? = nil)
    }

    /// Whether a local client waits for this to be on disk.
    var comesFromClient: Bool {
        switch self {
        case .set, .unset, .rollback, .release: true
        case .remote(_, _, _, let isPush): isPush
        case .expireOverrides, .files, .rules, .dropRemote: false
        }
    }

    /// Whether it can make an array of what a path leads through, or something else of an array there.
    func mayChangeContainers(above path: [String]) -> Bool {
        guard path.count > 1 else { return false }
        switch self {
        // What is set beside the way or further on leads through objects itself, as far as they go together.
        case .set(let other, _, _, _): return other.count < path.count && path.begins(withNames: other)
        // What is removed beside the way may uncover an array on it.
        case .unset(let other, _): return other.isEmpty || other[0] == path[0]
        case .expireOverrides, .files, .rules, .dropRemote, .remote, .rollback, .release: return true
        }
    }

    /// The path of a `set`.
    var path: [String]? {
        if case .set(let path, _, _, _) = self { path } else { nil }
    }

    /// The change as the history tells it.
    var cause: ChangeCause {
        switch self {
        case .set(let path, _, _, let peer): ChangeCause(.set, path: path, peer: peer)
        case .unset(let path, let peer): ChangeCause(.unset, path: path, peer: peer)
        case .expireOverrides: ChangeCause(.expiry)
        case .files(.defaults, _): ChangeCause(.defaults)
        case .files(.host, _): ChangeCause(.host)
        case .rules, .dropRemote: ChangeCause(.settings)
        case .remote(let document, let origin, _, let isPush):
            isPush ? ChangeCause(.push, peer: document.pushedBy) : ChangeCause(.refresh, origin: origin)
        case .rollback(let target, _, let peer): ChangeCause(.rollback, revision: target.revision, peer: peer)
        case .release(let peer): ChangeCause(.release, peer: peer)
        }
    }

    /// Makes the change.
    /// - Parameters:
    ///   - resolved: what the layers resolve to now
    ///   - maximumBytes: what each layer may have
    ///   - maximumDeletion: the percentage of the remote layer's members that another document may remove; nil for all
    /// - Throws: `rejected` or `invalidChange`; the layers are then as before.
    func apply(
        to layers: inout Layers, resolved: JSONValue, maximumBytes: Int, maximumDeletion: Int?, now: Int
    ) throws(ConfigError) -> Effect {
        switch self {
        case .set(let path, let value, let timeToLive, let peer):
            try Self.checkShape(path, value)
            if let locked = layers.rules.locks.touched(by: value, at: path) {
                throw ConfigError(.locked, "\(locked) is locked by the settings; change it where they pin it")
            }
            try Self.checkWay(path, resolved)
            let entry = OverrideLayer.Entry(
                path: path, value: value, setAt: now, expiresAt: timeToLive.map { now + $0.milliseconds }, setBy: peer)
            switch layers.override.set(entry, maximumBytes: maximumBytes) {
            case .refused(let bytes): throw Self.tooLarge(bytes, maximumBytes, "the overrides would have")
            case .set(let old, let isAlone):
                let lifetime = OverrideLifetime(of: entry, replacing: old)
                // An object merges into what the lower layers have there, and null lets nothing show.
                guard isAlone, let old, old.value.isPlainScalar, value.isPlainScalar else {
                    return .changed(.set(entry), lifetime: lifetime)
                }
                return .changed(
                    .set(entry), replacements: [JSONValue.Replacement(at: path, by: value)], lifetime: lifetime)
            }
        case .unset(let path, _):
            return layers.override.unset(path) ? .changed(.unset(path: path)) : .none
        case .expireOverrides(let overrides):
            let ended = overrides.filter { layers.override.expire($0.path, expiringAt: $0.expiresAt) }
            guard let last = ended.lazy.map(\.expiresAt).max() else { return .none }
            // A replay by the time of day would not end an override whose time of day has not come.
            return .changed(last <= now ? .expire(at: last) : .rollback(overrides: layers.override, layers.hold))
        case .files(let layer, let content):
            if (layers[layer]?.content ?? .empty) == content { return .none }
            try Self.check(content.textSize, maximumBytes, "the \(layer) files have")
            layers[layer] = Layers.Files(content, updatedAt: now)
            return .changed(nil)
        case .rules(let rules):
            if layers.rules == rules { return .none }
            layers.applyRulesLeniently(rules, now: now)
            return .changed(nil)
        case .dropRemote:
            if layers.remote == nil, layers.hold?.remote == nil { return .none }
            layers.dropRemote()
            layers.applyRulesLeniently(layers.rules, now: now)
            return .changed(.dropRemote)
        case .remote(let document, let origin, let force, _):
            try Self.check(document.content.textSize, maximumBytes, "the document has")
            return try Self.replaceRemote(
                document, origin, force: force, maximumDeletion: force ? nil : maximumDeletion, now: now, in: &layers)
        case .rollback(let target, let rule, let peer):
            layers.rollBack(
                to: target.publishedLayers, revision: target.revision, rule: rule, by: peer, now: now)
            layers.applyRulesLeniently(layers.rules, now: now)
            return .changed(.rollback(overrides: layers.override, layers.hold))
        case .release:
            if layers.hold == nil { return .none }
            layers.hold = nil
            layers.applyRulesLeniently(layers.rules, now: now)
            return .changed(.release)
        }
    }

    private static func check(_ bytes: Int, _ maximum: Int, _ what: String) throws(ConfigError) {
        if bytes > maximum { throw tooLarge(bytes, maximum, what) }
    }

    private static func tooLarge(_ bytes: Int, _ maximum: Int, _ what: String) -> ConfigError {
        ConfigError(.rejected, "\(what) \(bytes) bytes; limits.documentBytes in the settings allows \(maximum)")
    }

    /// Checks what does not depend on the layers.
    private static func checkShape(_ path: [String], _ value: JSONValue) throws(ConfigError) {
        if path.isEmpty, value.kind != .object {
            throw ConfigError(
                .invalidChange, "the whole configuration is an object; set a member of it, as in: set search.limit 20")
        }
        guard path.count + value.depth <= JSONParser.defaultMaximumDepth else {
            throw ConfigError(
                .rejected, "the configuration would be nested deeper than \(JSONParser.defaultMaximumDepth)")
        }
    }

    /// Checks that a path does not lead into an array.
    private static func checkWay(_ path: [String], _ resolved: JSONValue) throws(ConfigError) {
        var place = resolved
        for (length, name) in path.enumerated() {
            if place.kind == .array {
                throw ConfigError(
                    .invalidChange,
                    "\(JSONPath(Array(path[..<length]))) is an array, whose elements cannot be overridden one by one; "
                        + "set the whole array")
            }
            guard let next = place[name] else { return }
            place = next
        }
    }

    private static func replaceRemote(
        _ document: SourceDocument, _ origin: String, force: Bool, maximumDeletion: Int?, now: Int,
        in layers: inout Layers
    ) throws(ConfigError) -> Effect {
        guard document.value.kind == .object else {
            throw ConfigError(.rejected, "a configuration is a JSON object, this is \(document.value.kind)")
        }
        let isSameSeries = isComparable(origin, layers.remote?.origin)
        let held = layers.remote
        var seen = held?.seenVersions ?? SeenVersions()
        if !isSameSeries || !isComparable(origin, seen.source ?? origin) { seen = SeenVersions() }
        if !force { try seen.check(document, from: origin) }
        var next = layers
        next.remote = Layers.Remote(
            removals: document.removals, document: document.value, version: document.version,
            validator: document.validator, origin: origin, updatedAt: now, pushedBy: document.pushedBy,
            seenVersions: seen.adding(document.version, from: origin, force: force))
        try next.follow(layers.rules, now: now)
        let edits = document.edits.flatMap { $0.replacements(in: held?.document) }
        let isSame = edits.map(\.isEmpty) ?? next.remote?.hasSameContent(as: held) ?? false
        let mayDelete = edits?.contains { $0.value.isEmptyString } ?? true
        if !isSame, mayDelete, let maximumDeletion, let held, let new = next.remote {
            try checkDeletion(from: held.document, to: new.document, maximumDeletion)
        }
        if isSame, let held {
            // In the order of members in which it was published: the digest on disk tells a restart what that was.
            next.remote?.removals = held.removals
            next.remote?.document = held.document
            next.remote?.experiments = held.experiments
            next.remote?.updatedAt = held.updatedAt
        }
        let endsHold =
            layers.hold.map { force || ends($0, next.remote, isSame: isSame) } ?? false
        if endsHold {
            next.hold = nil
            try next.follow(layers.rules, now: now)
        }
        layers = next
        let isNothingNew =
            isSame && held?.version == document.version && held?.origin == origin && !endsHold
            && held?.seenVersions == next.remote?.seenVersions
        guard !isNothingNew, let remote = next.remote else { return .none }
        let isVisible = edits?.allSatisfy { layers.shows(.remote, at: $0.path) } ?? false
        return .changed(.remote(remote, endsHold: endsHold), replacements: isVisible && !endsHold ? edits : nil)
    }

    private static func checkDeletion(
        from held: JSONValue, to new: JSONValue, _ maximum: Int
    ) throws(ConfigError) {
        let deletion = MassDeletion(from: held, to: new)
        guard deletion.exceeds(percent: maximum) else { return }
        throw ConfigError(
            .rejected,
            "the document would remove \(deletion.removed) of \(deletion.members) members, and maximumDeletionPercent "
                + "in the settings is \(maximum); force it if that is intended",
            deletion: deletion)
    }

    /// Whether the versions of two origins can be compared. Two sources count each for itself; a push is a version of
    /// whatever source there is.
    private static func isComparable(_ origin: String, _ other: String?) -> Bool {
        origin == other || origin == pushOrigin && other != nil || other == pushOrigin
    }

    /// Whether a document that is not forced ends a hold.
    /// - Parameter isSame: whether its content is that of the live document, which did not end the hold.
    private static func ends(_ hold: Hold, _ remote: Layers.Remote?, isSame: Bool) -> Bool {
        guard hold.rule == .untilNewer, let remote else { return false }
        guard let refused = hold.refused else { return !isSame }
        if let old = refused.version, old.isOrdered(with: old) {
            guard let new = remote.version, isComparable(remote.origin, refused.origin) else { return false }
            return old.isOlder(than: new)
        }
        if let old = refused.version, let new = remote.version, isComparable(remote.origin, refused.origin) {
            return new != old
        }
        return !isSame && Hold.Refused(remote).digest != refused.digest
    }
}

extension SourceDocument.Edits {
    /// The replacements, without those that say the same; nil if they are not of a document.
    fileprivate func replacements(in document: JSONValue?) -> [JSONValue.Replacement]? {
        guard let document, document.isSameDocument(as: base) else { return nil }
        return replacements.filter { document.value(at: JSONPath($0.path)) != $0.value }
    }
}

extension Layers {
    /// Whether what a layer has at a path is what the configuration has there, as far as the layers above it and the rules
    /// are concerned.
    fileprivate func shows(_ layer: ConfigLayer, at path: [String]) -> Bool {
        hold == nil && rules.locks.isEmpty
            && ConfigLayer.allCases.drop { $0 != layer }.dropFirst().allSatisfy { effect($0, at: path) == .nothing }
    }
}

extension SourceDocument {
    fileprivate var content: ComposedPatch { ComposedPatch(removals: removals, patch: value) }
}

extension ComposedPatch {
    /// The size of the text of both parts in bytes.
    fileprivate var textSize: Int { patches.reduce(0) { $0 + $1.textSize } }
}

extension JSONValue {
    fileprivate var isEmptyString: Bool { kind == .string && textSize == 2 }

    /// Whether it is a number, a string or a truth value.
    fileprivate var isPlainScalar: Bool { kind == .number || kind == .string || kind == .bool }

    /// How deep arrays and objects are nested in it; 0 for a scalar. The parser has bounded it.
    fileprivate var depth: Int {
        switch kind {
        case .array: 1 + (elements.lazy.map(\.depth).max() ?? 0)
        case .object: 1 + (members.lazy.map(\.value.depth).max() ?? 0)
        case .null, .bool, .number, .string: 0
        }
    }
}
