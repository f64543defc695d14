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
