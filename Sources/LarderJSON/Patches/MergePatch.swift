/// JSON Merge Patch (RFC 7396).
///
/// The order of members is stable: those of the target keep their place, new ones follow in the patch's order.
/// What no patch touches is copied as a block, and where nothing changes the result is a view of the input.
public enum MergePatch {
    /// The target after the patch (`MergePatch` in RFC 7396, section 2).
    public static func apply(_ patch: JSONValue, to target: JSONValue?) -> JSONValue {
        guard let target else { return Merger.merge([patch], firstIsPatch: true) }
        return Merger.merge([target, patch], firstIsPatch: false)
    }

    /// All layers, lowest first, applied one to the other, beginning with an empty object; in one pass.
    public static func merge(_ layers: [JSONValue]) -> JSONValue {
        layers.isEmpty ? .emptyObject : Merger.merge(layers, firstIsPatch: true)
    }

    /// The patch that turns `old` into `new`; nil when no merge patch can, because a null member would have to be
    /// created. Where they are equal and objects, it is the empty object.
    public static func difference(from old: JSONValue, to new: JSONValue) -> JSONValue? {
        Difference.patch(from: old, to: new)
    }
}

extension MergePatch {
    /// One patch that does what two do, one after the other: nulls stay in it, because they still remove.
    ///
    /// What no single patch can say is "replace this scalar by nothing, then add members": where `second` has an object in
    /// the place of something else in `first`, members of a target show through.
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
