/// The effect of several merge patches (RFC 7396) applied in order, expressed as at most two patches.
///
/// A single patch cannot replace a value with an object, because an object in a patch merges with an object in the
/// target. A patch that has an object where an earlier patch has a value of another kind makes such a replacement
/// necessary. The replacement is expressed as a null in ``removals``, which removes the value, and the object in
/// ``patch``.
public struct ComposedPatch: Sendable, Equatable {
    /// Applied before ``patch``. Contains only nulls and the objects on the paths to them. Nil if no object of
    /// ``patch`` replaces a value.
    public private(set) var removals: JSONValue?
    /// Applied last. Its null members remove members of the target.
    public private(set) var patch: JSONValue

    /// A composition of a single patch.
    public init(_ patch: JSONValue) { self.init(removals: nil, patch: patch) }

    /// Creates a composition from the ``removals`` and ``patch`` of an earlier one.
    public init(removals: JSONValue?, patch: JSONValue) {
        self.removals = removals
        self.patch = patch
    }

    /// Composes patches in the order in which they are applied. An empty array makes a composition without effect.
    public init(_ patches: [JSONValue]) {
        self.init(patches.first ?? .emptyObject)
        for next in patches.dropFirst() { append(next) }
    }

    /// One or two patches with the combined effect, in the order in which to apply them.
    public var patches: [JSONValue] { removals.map { [$0, patch] } ?? [patch] }

    /// Adds a patch that is applied after all patches that were added before it.
    public mutating func append(_ next: JSONValue) { self = Self.compose(removals, patch, next) }

    /// - Parameters:
    ///   - removals: the value of the earlier ``removals`` at one path, if any; null if `first` replaces the target's
    ///     value there
    ///   - first: the value of the earlier ``patch`` at this path
    ///   - second: the value of the next patch at this path
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
