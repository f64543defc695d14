import LarderEncoding
package import LarderJSON

/// A requested change of the layers. `indirect`, so that a copy costs only one reference count: each value is copied
/// more often than it is created.
package indirect enum LayerChange: Sendable {
    case set(path: [String], value: JSONValue, timeToLive: Duration?, by: Peer?)
    case unset(path: [String], by: Peer?)
    /// Removes these overrides, unless they have been replaced or removed in the meantime.
    case expireOverrides([ExpiringOverride])
    case files(FileLayer, ComposedPatch)
    /// Applies other locks or experiments from the settings.
    case rules(LayerRules)
    /// Removes the remote document, because the settings no longer have a remote source.
    case dropRemote
    case remote(SourceDocument, origin: String, force: Bool, isPush: Bool)
    /// Restores the overrides of an earlier revision, and holds those documents of that revision that differ from the
    /// live ones.
    case rollback(to: Layers, revision: Int, hold: HoldRule?, by: Peer?)
    /// Ends the hold of a rollback.
    case release(by: Peer?)
    /// Sets an override to the sum of the value at the path and an integer. If there is an override at the path, it
    /// keeps its expiry.
    case increment(path: [String], CounterStep, by: Peer?)
    /// Makes all of these changes, each a `set` or an `unset`, or none of them.
    case several([LayerChange], by: Peer?)
    /// Changes no layer. The store then applies a new schema and tries the changes again that the schema has rejected.
    case recheck
    /// Another change with a condition or a reason.
    case requested(LayerChange, ChangeTerms)

    /// The change with a condition or a reason; without these, the change itself.
    package func on(_ terms: ChangeTerms) -> LayerChange { terms.isEmpty ? self : .requested(self, terms) }

    /// The change without its condition and reason.
    package var unconditional: LayerChange { if case .requested(let change, _) = self { change } else { self } }

    /// Whether a client requested the change. Such a change may have to be on disk before it is acknowledged.
    package var comesFromClient: Bool {
        switch self {
        case .set, .unset, .rollback, .release, .increment, .several: true
        case .remote(_, _, _, let isPush): isPush
        case .expireOverrides, .files, .rules, .dropRemote, .recheck: false
        case .requested(let change, _): change.comesFromClient
        }
    }

    /// Whether the change leaves all layers below the overrides as they are.
    package var concernsOnlyOverrides: Bool {
        switch self {
        case .set, .unset, .expireOverrides, .increment, .several, .recheck: true
        case .files, .rules, .dropRemote, .remote, .rollback, .release: false
        case .requested(let change, _): change.concernsOnlyOverrides
        }
    }

    /// Whether the change can turn a value above `path` into an array, or an array there into something else.
    package func mayChangeContainers(above path: [String]) -> Bool {
        guard path.count > 1 else { return false }
        switch self {
        // A `set` at a path above `path` can replace a container. A `set` at any other path leaves the containers above
        // `path` as they are, except that it may create objects there: it fails if its own path leads into an array.
        case .set(let other, _, _, _), .increment(let other, _, _):
            return other.count < path.count && path.begins(withNames: other)
        // If an override under the same top-level name is removed, an array of a lower layer may appear above `path`.
        case .unset(let other, _): return other.isEmpty || other[0] == path[0]
        case .expireOverrides, .files, .rules, .dropRemote, .remote, .rollback, .release: return true
        case .recheck: return false
        case .several(let changes, _): return changes.contains { $0.mayChangeContainers(above: path) }
        case .requested(let change, _): return change.mayChangeContainers(above: path)
        }
    }

    /// Whether the change can change the resolved value at `path`.
    func mayChangeValue(at path: [String]) -> Bool {
        switch self {
        case .set(let other, _, _, _), .increment(let other, _, _):
            return path.begins(withNames: other) || other.begins(withNames: path)
        // If an override under the same top-level name is removed, an array of a lower layer may appear above `path`.
        case .unset(let other, _): return other.isEmpty || path.isEmpty || other[0] == path[0]
        case .expireOverrides, .files, .rules, .dropRemote, .remote, .rollback, .release: return true
        case .recheck: return false
        case .several(let changes, _): return changes.contains { $0.mayChangeValue(at: path) }
        case .requested(let change, _): return change.mayChangeValue(at: path)
        }
    }

    /// The only path at which the change can change the resolved configuration; nil if it can do so at several paths.
    package var changedPath: [String]? {
        switch self {
        case .set(let path, _, _, _), .unset(let path, _), .increment(let path, _, _): path
        case .requested(let change, _): change.changedPath
        case .expireOverrides, .files, .rules, .dropRemote, .remote, .rollback, .release, .several, .recheck: nil
        }
    }

    /// The path of a `set`; nil for other changes.
    package var path: [String]? {
        if case .set(let path, _, _, _) = self { path } else { nil }
    }

    /// The change as the history records it.
    package var cause: ChangeCause {
        switch self {
        case .set(let path, _, _, let peer): ChangeCause(.set, path: path, peer: peer)
        case .unset(let path, let peer): ChangeCause(.unset, path: path, peer: peer)
        case .expireOverrides: ChangeCause(.expiry)
        case .files(.defaults, _): ChangeCause(.defaults)
        case .files(.host, _): ChangeCause(.host)
        case .rules, .dropRemote, .recheck: ChangeCause(.settings)
        case .remote(let document, let origin, _, let isPush):
            isPush ? ChangeCause(.push, peer: document.pushedBy) : ChangeCause(.refresh, origin: origin)
        case .rollback(_, let revision, _, let peer): ChangeCause(.rollback, revision: revision, peer: peer)
        case .release(let peer): ChangeCause(.release, peer: peer)
        case .increment(let path, _, let peer): ChangeCause(.increment, path: path, peer: peer)
        case .several(let changes, let peer): ChangeCause(.apply, path: Self.sharedPath(of: changes), peer: peer)
        case .requested(let change, let terms): change.cause(because: terms.reason)
        }
    }

    /// A locked path at which the change would have an effect; nil for none.
    package func lockedPath(in locks: LockedPaths) -> JSONPath? {
        switch self {
        case .set(let path, let value, _, _): locks.touched(by: value, at: path)
        // The sum is not known yet, but any number has an effect at the same paths, so `step.by` stands for it.
        case .increment(let path, let step, _): locks.touched(by: .int(step.by), at: path)
        case .several(let changes, _): changes.lazy.compactMap { $0.lockedPath(in: locks) }.first
        case .requested(let change, _): change.lockedPath(in: locks)
        case .unset, .expireOverrides, .files, .rules, .dropRemote, .remote, .rollback, .release, .recheck: nil
        }
    }

    private func cause(because reason: String?) -> ChangeCause {
        var cause = cause
        cause.reason = reason
        return cause
    }

    /// The path at or below which all changes are; nil if that is the whole document.
    private static func sharedPath(of changes: [LayerChange]) -> [String]? {
        let paths = changes.compactMap { change -> [String]? in
            switch change {
            case .set(let path, _, _, _), .unset(let path, _): path
            default: nil
            }
        }
        guard var shared = paths.first else { return nil }
        for path in paths {
            while !path.begins(withNames: shared) { shared.removeLast() }
        }
        return shared.isEmpty ? nil : shared
    }

    /// Applies the change. ``ChangeBatch`` applies an increment, several changes, and changes with a condition.
    /// - Parameters:
    ///   - resolved: the resolved configuration before the change
    ///   - reason: why the client requested the change; nil if it gave no reason
    /// - Returns: nil if the layers already had this content
    /// - Throws: `locked`, `rejected` or `invalidChange`; the layers are unchanged then.
    func apply(
        to layers: inout Layers, _ context: ChangeContext, resolved: JSONValue, because reason: String? = nil
    ) throws(ConfigError) -> ChangeEffect? {
        let (now, maximumBytes) = (context.now, context.limits.maximumBytes)
        switch self {
        case .set(let path, let value, let timeToLive, let peer):
            try Self.checkShape(path, value)
            if layers.hasLocks, let locked = layers.locks.touched(by: value, at: path) {
                throw ConfigError(
                    .locked,
                    "\"\(locked)\" is locked in the settings; change the defaults or the host files, or remove the lock"
                )
            }
            try Self.checkAncestors(path, resolved)
            let entry = OverrideEntry(
                path: path, value: value, setAt: now, expiresAt: timeToLive.map { now + $0.milliseconds }, setBy: peer,
                reason: reason)
            switch layers.override.set(entry, maximumBytes: maximumBytes) {
            case .rejected(let bytes): throw Self.tooLarge(bytes, maximumBytes, "the overrides would have")
            case .set(let old):
                return ChangeEffect(
                    operation: context.recordsOperations ? .set(entry) : nil,
                    difference: Self.difference(at: path, from: old, to: value),
                    lifetime: OverrideLifetime(of: entry, replacing: old))
            }
        case .unset(let path, _):
            guard layers.override.unset(path) else { return nil }
            return ChangeEffect(operation: .unset(path: path), difference: .paths([path]))
        case .expireOverrides(let overrides):
            let ended = overrides.filter { layers.override.expire($0.path, expiringAt: $0.expiresAt) }
            if ended.isEmpty { return nil }
            return ChangeEffect(operation: .expireOverrides(ended), difference: .paths(ended.map(\.path)))
        case .files(let layer, let content):
            if (layers[layer]?.content ?? .empty) == content { return nil }
            try Self.check(content, maximumBytes, "the \(layer) files have")
            layers[layer] = FileDocument(content, updatedAt: now)
            return ChangeEffect()
        case .rules(let rules):
            if layers.rules == rules { return nil }
            layers.applyRulesLeniently(rules, now: now)
            return ChangeEffect()
        case .dropRemote:
            if layers.remote == nil, layers.hold?.remote == nil { return nil }
            // A document that was pushed since the change was submitted stays.
            if layers.remote?.origin == SourceOrigin.push { return nil }
            layers.dropRemote()
            layers.applyRulesLeniently(layers.rules, now: now)
            return ChangeEffect(operation: .dropRemote)
        case .remote(let document, let origin, let force, _):
            try Self.check(document.content, maximumBytes, "the document has")
            let replacement = RemoteReplacement(
                document: document, origin: origin, force: force,
                maximumDeletion: force ? nil : context.limits.maximumDeletion, now: now)
            return try replacement.apply(to: &layers)
        case .rollback(let old, let revision, let rule, let peer):
            layers.rollBack(to: old, revision: revision, rule: rule, by: peer, now: now)
            layers.applyRulesLeniently(layers.rules, now: now)
            return ChangeEffect(
                operation: .rollback(overrides: layers.override, layers.hold), restoresOverrides: true)
        case .release:
            if layers.hold == nil { return nil }
            layers.hold = nil
            layers.applyRulesLeniently(layers.rules, now: now)
            return ChangeEffect(operation: .release)
        case .recheck: return nil
        case .increment, .several, .requested: preconditionFailure("only a batch applies this change")
        }
    }

    /// How the resolved configuration changes when an override is set.
    /// - Parameter old: the previous node at the path; nil for none
    private static func difference(
        at path: [String], from old: OverrideNode?, to value: JSONValue
    ) -> ResolvedDifference {
        // The new value is known only if one scalar replaces another. A new object is merged with the value of the
        // lower layers, and null removes that value.
        guard let old, old.isLeaf, let current = old.value, current.isPlainScalar, value.isPlainScalar else {
            return .paths([path])
        }
        // Overrides are the highest layer and locked paths cannot be set, so `value` is also the resolved value.
        return .scalar(JSONValue.Replacement(at: path, by: value), differs: current != value)
    }

    private static func check(_ content: ComposedPatch, _ maximum: Int, _ what: String) throws(ConfigError) {
        let bytes = content.patches.reduce(0) { $0 + $1.textSize }
        if bytes > maximum { throw tooLarge(bytes, maximum, what) }
    }

    private static func tooLarge(_ bytes: Int, _ maximum: Int, _ what: String) -> ConfigError {
        ConfigError(
            .rejected,
            "\(what) \(bytes) bytes, more than \(maximum) (limits.documentBytes); reduce it or raise the limit")
    }

    /// Checks the requirements that do not depend on the layers.
    private static func checkShape(_ path: [String], _ value: JSONValue) throws(ConfigError) {
        if path.isEmpty, value.kind != .object {
            throw ConfigError(
                .invalidChange,
                "the whole configuration must be an object; set a member, as in: larder set search.limit 20")
        }
        guard path.count + value.depth <= JSONParser.defaultMaximumDepth else {
            throw ConfigError(
                .rejected,
                "the configuration would be nested deeper than \(JSONParser.defaultMaximumDepth) levels; "
                    + "reduce the nesting of the value")
        }
    }

    /// Throws if the path leads into an array.
    private static func checkAncestors(_ path: [String], _ resolved: JSONValue) throws(ConfigError) {
        var place = resolved
        for (length, name) in path.enumerated() {
            if place.kind == .array {
                throw ConfigError(
                    .invalidChange,
                    "\"\(JSONPath(Array(path[..<length])).description.excerpt)\" is an array, and elements of arrays "
                        + "cannot be overridden; set the whole array")
            }
            guard let next = place[name] else { return }
            place = next
        }
    }
}

extension SourceDocument {
    fileprivate var content: ComposedPatch { ComposedPatch(removals: removals, patch: value) }
}

extension JSONValue {
    /// The nesting depth of arrays and objects; 0 for a scalar. The recursion is bounded, because the parser limits the
    /// depth.
    fileprivate var depth: Int {
        switch kind {
        case .array: 1 + (elements.lazy.map(\.depth).max() ?? 0)
        case .object: 1 + (members.lazy.map(\.value.depth).max() ?? 0)
        case .null, .bool, .number, .string: 0
        }
    }
}

/// How an increment changes a number.
package struct CounterStep: Sendable, Equatable {
    /// The integers that every JSON reader represents exactly: ±(2⁵³ − 1).
    package static let exactIntegers = -((1 << 53) - 1)...((1 << 53) - 1)

    /// The number to add, one of ``exactIntegers``.
    package var by: Int
    /// The bounds of the sum; nil for no bound. An increment whose sum is outside them is rejected with `conflict`.
    package var minimum: Int?
    package var maximum: Int?

    package init(by: Int, minimum: Int? = nil, maximum: Int? = nil) {
        self.by = by
        self.minimum = minimum
        self.maximum = maximum
    }

    /// Adds ``by`` to the value at a path.
    /// - Parameter old: the value; nil for none, which counts as 0
    /// - Throws: `invalidChange` if the value or the sum is not one of ``exactIntegers``; `conflict` if the sum is
    ///   outside the bounds.
    func sum(with old: JSONValue?, at path: [String]) throws(ConfigError) -> Int {
        guard let number = old.map({ $0.int }) ?? 0, Self.exactIntegers.contains(number) else {
            throw ConfigError(
                .invalidChange,
                "the value at \"\(JSONPath(path).description.excerpt)\" is not an integer from -(2^53-1) to 2^53-1; "
                    + "set it to such an integer")
        }
        let sum = number + by
        if let minimum, sum < minimum {
            throw ConfigError(
                conflictAt: path,
                "the sum, \(sum), would be less than the minimum, \(minimum); nothing was changed: add more, or lower the minimum"
            )
        }
        if let maximum, sum > maximum {
            throw ConfigError(
                conflictAt: path,
                "the sum, \(sum), would be greater than the maximum, \(maximum); nothing was changed: add less, or raise the maximum"
            )
        }
        guard Self.exactIntegers.contains(sum) else {
            throw ConfigError(
                .invalidChange, "the sum would not be an integer from -(2^53-1) to 2^53-1; nothing was changed")
        }
        return sum
    }
}

/// The limits in the settings for documents.
package struct DocumentLimits: Sendable, Equatable {
    /// The maximum size of a document, and of all overrides together, in bytes.
    package var maximumBytes: Int
    /// The maximum percentage of the remote document's members that another document may remove; nil for no limit.
    package var maximumDeletion: Int?

    package init(maximumBytes: Int, maximumDeletion: Int? = nil) {
        self.maximumBytes = maximumBytes
        self.maximumDeletion = maximumDeletion
    }
}

/// The limits and the time by which changes are checked and applied.
package struct ChangeContext: Sendable {
    package let limits: DocumentLimits
    /// In milliseconds since 1970.
    package let now: Int
    /// Whether the journal may have to record the changes. Only then must a change return its operation.
    package let recordsOperations: Bool
    /// Whether the first snapshot may be empty; false if there is a remote source.
    package let mayPublishEmpty: Bool

    package init(limits: DocumentLimits, now: Int, recordsOperations: Bool, mayPublishEmpty: Bool = true) {
        self.limits = limits
        self.now = now
        self.recordsOperations = recordsOperations
        self.mayPublishEmpty = mayPublishEmpty
    }
}

/// The effect of a ``LayerChange`` on the layers.
struct ChangeEffect: Sendable {
    /// The operation to record in the journal; nil if the journal does not record the change.
    var operation: LayerOperation?
    var difference = ResolvedDifference.any
    /// The lifetime of the override that was set; nil for other changes.
    var lifetime: OverrideLifetime?
    /// Whether the change restored overrides that had been replaced or removed.
    var restoresOverrides = false
}

/// How changes affect the resolved configuration, as far as this is known without resolving the layers.
enum ResolvedDifference: Sendable {
    case none
    /// One scalar is replaced by another one.
    /// - Parameter differs: whether the two scalars have different values
    case scalar(JSONValue.Replacement, differs: Bool)
    /// Scalars are replaced by others, possibly equal ones, and nothing else changes.
    case scalars([JSONValue.Replacement])
    /// Overrides at these paths have been set or removed, and nothing else has changed.
    case paths([[String]])
    /// Anything may have changed.
    case any

    /// The replaced scalars; nil if something else may have changed.
    var replacements: [JSONValue.Replacement]? {
        switch self {
        case .none: []
        case .scalar(let replacement, _): [replacement]
        case .scalars(let replacements): replacements
        case .paths, .any: nil
        }
    }

    /// The paths at which overrides have changed; nil if anything may have changed.
    var paths: [[String]]? {
        if case .paths(let paths) = self { paths } else { replacements?.map(\.path) }
    }

    /// Adds the difference that a later change makes.
    mutating func add(_ later: ResolvedDifference) {
        if case .none = later { return }
        if case .none = self {
            self = later
        } else if case .scalars(var all) = self, let added = later.replacements {
            // Without another owner, the array grows in place.
            self = .none
            all += added
            self = .scalars(all)
        } else if case .paths(var all) = self, let added = later.paths {
            self = .none
            all += added
            self = .paths(all)
        } else if let all = replacements, let added = later.replacements {
            self = .scalars(all + added)
        } else if let all = paths, let added = later.paths {
            self = .paths(all + added)
        } else {
            self = .any
        }
    }
}

extension LayerChange {
    /// The violations as the reply to this change reports them: with the value found if the change contains it.
    package func quoting(_ problems: [SchemaProblem]) -> [SchemaProblem] {
        problems.map { problem in
            var shown = problem.withoutValue
            // An object may have members of other layers, which the change does not contain.
            if let text = problem.messageWithValue, let value = content(at: problem.path.segments, problem.layer),
                value.kind != .object
            {
                shown.message = text
            }
            return shown
        }
    }

    /// The value at a path that a client's change contains for a layer; nil for none.
    private func content(at path: [String], _ layer: ConfigLayer?) -> JSONValue? {
        switch self {
        case .set(let own, let value, _, _) where layer == .override && path.begins(withNames: own):
            value.value(at: JSONPath(Array(path[own.count...])))
        case .remote(let document, _, _, isPush: true) where layer == .remote:
            document.value.value(at: JSONPath(path))
        case .several(let changes, _): changes.lazy.reversed().compactMap { $0.content(at: path, layer) }.first
        case .requested(let change, _): change.content(at: path, layer)
        default: nil
        }
    }
}
