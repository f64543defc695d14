/// JSON Merge Patch (RFC 7396).
///
/// Member order is stable: members of the target keep their positions, and new members follow in the order of the
/// patch. Parts that no patch changes are copied in one piece. If nothing changes, the result shares the document of
/// the target.
public enum MergePatch {
    /// Applies a patch to a target (`MergePatch` in RFC 7396, section 2).
    public static func apply(_ patch: JSONValue, to target: JSONValue?) -> JSONValue {
        guard let target else { return Merger.merge([patch], firstIsPatch: true) }
        return Merger.merge([target, patch], firstIsPatch: false)
    }

    /// Applies the layers, which are merge patches, in array order to an empty object. The first layer has the lowest
    /// precedence. Takes one pass over all layers.
    public static func merge(_ layers: [JSONValue]) -> JSONValue {
        layers.isEmpty ? .emptyObject : Merger.merge(layers, firstIsPatch: true)
    }

    /// The patch that turns `old` into `new`; the empty object if both are equal objects. Nil if the patch would have
    /// to create a null member, which a merge patch cannot do.
    public static func difference(from old: JSONValue, to new: JSONValue) -> JSONValue? {
        Difference.patch(from: old, to: new)
    }
}

extension MergePatch {
    /// Returns one patch with the effect of `first` followed by `second`. Null members stay in the result, because they
    /// remove members of the target.
    ///
    /// The result is inexact if `second` has an object where `first` has a scalar, an array or null. A single patch
    /// cannot replace a value by an object, so members of the target remain. ``ComposedPatch`` is exact.
    public static func compose(_ first: JSONValue, _ second: JSONValue) -> JSONValue {
        guard first.kind == .object, second.kind == .object else { return second }
        var members = first.members.map { member in
            (member.name, second[member.name].map { compose(member.value, $0) } ?? member.value)
        }
        for member in second.members where first[member.name] == nil {
            members.append((member.name, member.value))
        }
        return .object(members)
    }
}
