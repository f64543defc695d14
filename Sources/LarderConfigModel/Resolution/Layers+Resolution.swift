package import LarderJSON

extension Layers {
    /// Merges the layers by RFC 7396, lowest first. Locked paths get the value of the file layers. The result depends
    /// only on the layers, so that the layers of an earlier snapshot resolve to its value again.
    package func resolved() -> JSONValue {
        let shown = shown
        let base = rules.locks.isEmpty ? nil : MergePatch.merge(shown.fileDocuments)
        let merged = shown.override.applied(to: shown.documents)
        return base.map { rules.locks.pin(merged, to: $0) } ?? merged
    }

    /// The documents of the file layers, lowest first.
    private var fileDocuments: [JSONValue] {
        var documents: [JSONValue] = []
        for layer in FileLayer.allCases { documents += self[layer]?.content.patches ?? [] }
        return documents
    }

    /// The documents below the overrides, lowest first. Must be called on the result of ``shown``.
    fileprivate var documents: [JSONValue] {
        var documents = fileDocuments
        if let remote { documents += remote.content.patches }
        for overlay in experiment.overlays { documents.append(overlay.values) }
        return documents
    }

    /// Computes ``resolved()`` off every actor.
    @concurrent
    package func resolvedConcurrently() async -> JSONValue { resolved() }

    /// Returns the same value as ``resolved()``. If only the remote layer has content, the value is the remote document
    /// itself, so that memory holds one document instead of two.
    package func resolvedSharing() -> JSONValue {
        let value = resolved()
        guard isRemoteAlone, let remote = remote?.document, remote.isWholeDocument, remote.isCompact,
            remote.hasSameText(as: value)
        else { return value }
        return remote
    }

    /// Whether no layer except the remote one has content, and there is no hold.
    package var isRemoteAlone: Bool {
        FileLayer.allCases.allSatisfy { (self[$0]?.document.count ?? 0) == 0 } && experiment.overlays.isEmpty
            && override.isEmpty && hold == nil
    }

    /// Whether no layer has content.
    package var isEmpty: Bool {
        remote == nil && isRemoteAlone
    }

    /// Whether each file layer has the same content here and in `other`, and either both or neither have a remote
    /// document.
    package func hasSameDocuments(as other: Layers) -> Bool {
        FileLayer.allCases.allSatisfy { self[$0]?.content == other[$0]?.content } && hasRemote == other.hasRemote
    }
}

extension OverrideEntry {
    /// The effect that this entry has at a path.
    package func effect(at other: [String]) -> PatchEffect {
        let common = min(path.count, other.count)
        guard zip(path, other).allSatisfy({ $0.isSpelled(as: $1) }) else { return .unchanged }
        if path.count <= other.count { return value.effect(at: other[common...]) }
        return .value(path[common...].reversed().reduce(value) { .object([($1, $0)]) })
    }
}

extension Layers {
    /// The effect of a layer at a path. Must be called on the result of ``shown``, in which held layers replace the
    /// live ones.
    package func effect(of layer: ConfigLayer, at path: [String]) -> PatchEffect {
        switch layer {
        case .defaults, .host: layer.fileLayer.flatMap { self[$0] }?.content.effect(at: path) ?? .unchanged
        case .remote: remote?.content.effect(at: path) ?? .unchanged
        case .experiment: PatchEffect(experiment.overlays.map(\.values), at: path)
        case .override: override.effect(at: path)
        }
    }
}

extension OverrideLayer {
    /// The combined effect of all entries at a path.
    fileprivate func effect(at path: [String]) -> PatchEffect {
        let speakers = entries(around: path).filter { $0.effect(at: path) != .unchanged }
        if speakers.count < 2 { return speakers.first?.effect(at: path) ?? .unchanged }
        return PatchEffect(OverrideLayer(entries: speakers).patches(), at: path)
    }
}

/// The effect at a path of a merge patch (RFC 7396), or of several patches that are applied in order.
package enum PatchEffect: Equatable {
    /// The previous value stays.
    case unchanged
    /// A value that replaces the previous one or, as an object, is merged into it.
    case value(JSONValue)
    /// The value is removed, because the patch has null at the path, or has a scalar or array at an ancestor of the
    /// path that contains nothing at the path.
    case removed

    /// The combined effect of this and a later patch.
    package func then(_ next: PatchEffect) -> PatchEffect {
        switch (self, next) {
        case (_, .unchanged): self
        case (.value(let first), .value(let second)): .value(MergePatch.compose(first, second))
        case (_, .removed), (_, .value): next
        }
    }
}

extension JSONValue {
    /// The effect at a path if this value is applied as a merge patch.
    package func effect(at path: some Collection<String>) -> PatchEffect {
        guard let name = path.first else { return isNull ? .removed : .value(self) }
        switch kind {
        case .object: return self[name]?.effect(at: path.dropFirst()) ?? .unchanged
        case .array: return value(at: JSONPath(Array(path))).map(PatchEffect.value) ?? .removed
        case .null, .bool, .number, .string: return .removed
        }
    }
}

extension PatchEffect {
    /// The combined effect of patches that are applied in order.
    init(_ patches: [JSONValue], at path: [String]) {
        self = patches.reduce(.unchanged) { $0.then($1.effect(at: path)) }
    }
}

extension ComposedPatch {
    /// The effect at a path of ``removals`` and then ``patch``.
    package func effect(at path: [String]) -> PatchEffect { PatchEffect(patches, at: path) }
}

/// Resolves the layers at some paths only, which takes time proportional to the values at these paths.
extension Layers {
    /// The value at a path in the result of ``resolved()``, and the kinds of the containers above it. Other members are
    /// left out. Must be called only if no path is locked.
    func resolved(around path: [String]) -> JSONValue {
        let parts = NameTree([path])
        return override.applied(to: shown.documents.map(parts.part), around: path)
    }

    /// Returns ``resolved()`` after changes of overrides, as a copy of the previous configuration in which only the
    /// changed members differ.
    /// - Parameters:
    ///   - current: the result of ``resolved()`` for `old`
    ///   - old: the layers before the changes; only their overrides differ from these layers
    ///   - paths: the paths at which overrides were set or removed
    /// - Returns: the configuration, and whether its value differs from that of `current`. Nil if the places of the
    ///   changed members are not known, so that all layers must be merged.
    func resolved(editing current: JSONValue, of old: Layers, at paths: [[String]]) -> (
        value: JSONValue, differs: Bool
    )? {
        if hasLocks { return nil }
        // Each path takes about as long as merging a kilobyte.
        if paths.count > max(16, current.textSize / 1024) { return nil }
        var tree = NameTree()
        for path in paths {
            // An override above a path contains a value for the path, too.
            let depths = [override.depthOfEntry(above: path), old.override.depthOfEntry(above: path)]
            tree.insert(path.prefix(depths.compactMap { $0 }.min() ?? path.count))
        }
        if tree.isWhole { return nil }
        // Members that are new to their object are appended in the order of the overrides.
        let roots = tree.paths.map { (path: $0, order: override.order(of: $0)) }
            .sorted { $0.order.lexicographicallyPrecedes($1.order) }.map(\.path)
        let documents = shown.documents.map(tree.part)
        let lower = MergePatch.merge(documents)
        let changed = OverrideLayer(entries: roots.flatMap(override.entries(around:))).applied(to: documents)
        var edits: [[String]] = []
        var moved: Set<Int> = []
        var differs = false
        for path in roots {
            guard let name = path.last, let parent = current.member(at: path.dropLast()), parent.kind == .object else {
                return nil
            }
            let (before, after) = (parent[name], changed.member(at: path[...]))
            guard let moves = isMoved(at: path, from: before, to: after, over: lower, old.override) else { return nil }
            if let before, let after, !moves, before.hasSameText(as: after) { continue }
            if before == nil, after == nil { continue }
            if moves { moved.insert(edits.count) }
            edits.append(path)
            differs = differs || before != after
        }
        if edits.isEmpty { return (current, false) }
        return current.replacingMembers(at: edits, moving: moved, from: changed).map { ($0, differs) }
    }

    /// Whether a changed member moves to the end of its object.
    /// - Returns: false if the member keeps its place among the others, is new and therefore the last one, or is removed
    ///   from an object that remains; nil if its place is not known
    private func isMoved(
        at path: [String], from before: JSONValue?, to after: JSONValue?, over lower: JSONValue, _ old: OverrideLayer
    ) -> Bool? {
        let parent = path.dropLast()
        // The objects above the member keep their places, too.
        guard zip(override.order(of: Array(parent)), old.order(of: Array(parent))).allSatisfy(==) else { return nil }
        let isLower = lower.member(at: path[...]) != nil
        let place = MemberPlace(of: old.node(at: path[...]), isLower: isLower)
        let next = MemberPlace(of: override.node(at: path[...]), isLower: isLower)
        guard (place == .none) == (before == nil), (next == .none) == (after == nil) else { return nil }
        if place == next { return false }
        if next == .none {
            let remains =
                parent.isEmpty || override.node(at: parent)?.hasValues == true
                || lower.member(at: parent)?.kind == .object
            return remains ? false : nil
        }
        guard case .overridden(let order) = next, order >= old.node(at: parent)?.nextOrder ?? 0 else { return nil }
        return place != .none
    }
}

/// The place of a member among the members of its object, if no override is above the member.
private enum MemberPlace: Equatable {
    /// There is no member.
    case none
    /// A lower layer determines the place.
    case lower
    /// The member follows those of lower layers, in the order of the overrides.
    case overridden(order: Int)

    /// - Parameters:
    ///   - node: the overrides at the member and below it; nil for none
    ///   - isLower: whether lower layers have the member
    init(of node: OverrideNode?, isLower: Bool) {
        if isLower, node?.value?.isNull != true {
            self = .lower
        } else if let node, node.hasValues {
            // A null override has removed the member of lower layers, and overrides below it have added it again.
            self = .overridden(order: node.order)
        } else {
            self = .none
        }
    }
}

/// Paths as a tree of names.
struct NameTree {
    private var children: [ExactText: NameTree] = [:]
    /// Whether a path ends here, so that the tree stands for the whole value.
    private(set) var isWhole = false

    init(_ paths: [[String]] = []) {
        for path in paths { insert(path[...]) }
    }

    /// Adds a path. A path below another one is already part of it.
    mutating func insert(_ path: ArraySlice<String>) {
        if isWhole { return }
        guard let name = path.first else {
            (children, isWhole) = ([:], true)
            return
        }
        children[ExactText(name), default: NameTree()].insert(path.dropFirst())
    }

    /// Whether one of the paths is `path` or above it.
    func includes(_ path: ArraySlice<String>) -> Bool {
        isWhole || child(on: path)?.includes(path.dropFirst()) ?? false
    }

    /// Whether one of the paths is `path`, above it or below it.
    func touches(_ path: ArraySlice<String>) -> Bool {
        isWhole || (path.isEmpty ? !children.isEmpty : child(on: path)?.touches(path.dropFirst()) ?? false)
    }

    private func child(on path: ArraySlice<String>) -> NameTree? { path.first.flatMap { children[ExactText($0)] } }

    /// The paths, in no particular order.
    var paths: [[String]] {
        isWhole ? [[]] : children.flatMap { name, tree in tree.paths.map { [name.text] + $0 } }
    }

    /// The part of a value at the paths. Containers above the paths keep their kinds.
    func part(of value: JSONValue) -> JSONValue {
        isWhole || value.kind != .object ? value : .building { write(value, to: &$0) }
    }

    private func write(_ value: JSONValue, to writer: inout JSONWriter) {
        if isWhole || value.kind != .object { return writer.value(value) }
        writer.beginObject()
        for (name, tree) in children {
            guard let member = value[name.text] else { continue }
            writer.name(name.text)
            tree.write(member, to: &writer)
        }
        writer.endObject()
    }
}

extension OverrideLayer {
    /// Applies the overrides that affect a path to lower layers, lowest first.
    fileprivate func applied(to documents: [JSONValue], around path: [String]) -> JSONValue {
        var patches = documents
        for depth in path.indices {
            guard let node = node(at: path[..<depth]) else { return MergePatch.merge(patches) }
            // A null override does not create the objects above it.
            if let value = node.value, !value.isNull || MergePatch.merge(patches).member(at: path[..<depth]) != nil {
                patches.append(NameTree([Array(path[depth...])]).part(of: value).nested(at: path[..<depth]))
            }
            // Other overrides below this path make its value an object.
            if depth > 0, node.hasValuesBelow { patches.append(JSONValue.emptyObject.nested(at: path[..<depth])) }
        }
        return OverrideLayer(entries: entries(atAndBelow: path)).applied(to: patches)
    }
}

extension JSONValue {
    /// The member at a path through objects; nil for none.
    fileprivate func member(at path: ArraySlice<String>) -> JSONValue? {
        var value = self
        for name in path {
            guard let member = value[name] else { return nil }
            value = member
        }
        return value
    }

    fileprivate func nested(at path: ArraySlice<String>) -> JSONValue {
        path.reversed().reduce(self) { .object([($1, $0)]) }
    }
}
