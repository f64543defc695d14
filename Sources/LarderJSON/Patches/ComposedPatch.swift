/// The effect of several merge patches (RFC 7396) that are applied one after the other, as at most two patches.
///
/// A single patch cannot replace a value by an object, because an object in a patch merges with an object of the target.
/// Such a replacement is needed if a patch has an object where an earlier one has something else. It is expressed by a
/// null in ``removals`` and the object in ``patch``.
public struct ComposedPatch: Sendable, Equatable {
    /// Applied before ``patch``: nulls, and the objects that lead to them. nil if no object of ``patch`` replaces a value.
    public private(set) var removals: JSONValue?
    /// Nulls stay in it, because they remove members of the target.
    public private(set) var patch: JSONValue

    /// A single patch.
    public init(_ patch: JSONValue) { self.init(removals: nil, patch: patch) }

    /// The two parts of a composition that was stored.
    public init(removals: JSONValue?, patch: JSONValue) {
        self.removals = removals
        self.patch = patch
    }

    /// Composes patches in the order of their application. Without patches nothing changes.
    public init(_ patches: [JSONValue]) {
        self.init(patches.first ?? .emptyObject)
        for next in patches.dropFirst() { append(next) }
    }

    /// The patches that have the effect, in the order of their application.
    public var patches: [JSONValue] { removals.map { [$0, patch] } ?? [patch] }

    /// Adds a patch that is applied after all others.
    public mutating func append(_ next: JSONValue) { self = Self.compose(removals, patch, next) }

    /// - Parameters:
    ///   - removals: those at this place; null if `first` replaces what the target has here
    ///   - first: the composition so far
    ///   - second: the patch that follows
    private static func compose(_ removals: JSONValue?, _ first: JSONValue, _ second: JSONValue) -> ComposedPatch {
        guard second.kind == .object else { return ComposedPatch(second) }
        guard first.kind == .object, removals?.isNull != true else {
            return ComposedPatch(removals: .null, patch: MergePatch.apply(second, to: first))
        }
        var members: [(String, JSONValue)] = []
        var removed: [(String, JSONValue)] = []
        for (name, value) in first.members {
            var composed = ComposedPatch(removals: removals?[name], patch: value)
            if let next = second[name] { composed = compose(composed.removals, value, next) }
            members.append((name, composed.patch))
            if let removals = composed.removals { removed.append((name, removals)) }
        }
        for (name, value) in second.members where first[name] == nil { members.append((name, value)) }
        return ComposedPatch(removals: removed.isEmpty ? nil : .object(removed), patch: .object(members))
    }
}
