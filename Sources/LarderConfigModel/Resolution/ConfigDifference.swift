package import LarderJSON

/// The difference between two documents.
package struct ConfigDifference: Sendable {
    /// A path at which the values differ.
    package struct Place: Sendable, Equatable {
        package var path: JSONPath
        /// The old value; nil for none.
        package var old: JSONValue?
        /// The new value; nil for none.
        package var new: JSONValue?
    }

    /// The merge patch from the old value to the new one; nil if one of the values does not exist, or if the patch
    /// would have to create a null member, which merge patches cannot do.
    package var patch: JSONValue?
    /// The paths at which the values differ. Two objects are compared member by member.
    package var places: [Place] = []

    /// Compares the values of two documents at a path.
    @concurrent
    package static func between(_ old: JSONValue, _ new: JSONValue, at path: JSONPath) async -> ConfigDifference {
        let (old, new) = (old.value(at: path), new.value(at: path))
        var difference = ConfigDifference()
        if let old, let new { difference.patch = MergePatch.difference(from: old, to: new) }
        difference.compare(old, new, path.segments)
        return difference
    }

    private mutating func compare(_ old: JSONValue?, _ new: JSONValue?, _ path: [String]) {
        if old == new { return }
        guard let old, let new, old.kind == .object, new.kind == .object else {
            places.append(Place(path: JSONPath(path), old: old, new: new))
            return
        }
        for (name, value) in old.members { compare(value, new[name], path + [name]) }
        for (name, value) in new.members where old[name] == nil { compare(nil, value, path + [name]) }
    }
}
