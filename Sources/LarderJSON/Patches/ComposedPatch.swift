/// The effect of several merge patches (RFC 7396) applied in order, expressed as at most two patches.
///
/// A single patch cannot replace a value with an object, because an object in a patch merges with an object in the
/// target. Such a replacement is necessary if a patch has an object where an earlier one has another kind of value. It
/// is expressed as a null in ``removals`` and the object in ``patch``.
public struct ComposedPatch: Sendable, Equatable {
    /// Applied before ``patch``. Contains nulls and the objects that lead to them. Nil if no object of ``patch``
    /// replaces a value.
    public private(set) var removals: JSONValue?
    /// Applied last. Contains nulls, which remove members of the target.
    public private(set) var patch: JSONValue

    /// A single patch.
    public init(_ patch: JSONValue) { self.init(removals: nil, patch: patch) }

    /// Restores a composition from its two parts.
    public init(removals: JSONValue?, patch: JSONValue) {
        self.removals = removals
        self.patch = patch
    }

    /// Composes patches in the order in which they are applied. An empty array makes a patch without effect.
    public init(_ patches: [JSONValue]) {
        self.init(patches.first ?? .emptyObject)
        for next in patches.dropFirst() { append(next) }
    }

    /// One or two patches with the combined effect, in the order in which to apply them.
    public var patches: [JSONValue] { removals.map { [$0, patch] } ?? [patch] }

    /// Adds a patch to apply after the previous ones.
    public mutating func append(_ next: JSONValue) { self = Self.compose(removals, patch, next) }

    /// - Parameters:
    ///   - removals: the removals at this path; null if `first` replaces the target's value here
    ///   - first: the composition so far
    ///   - second: the next patch
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
