package import LarderJSON

/// What differs between two documents.
package struct ConfigDifference: Sendable {
    /// A place that differs: `old` is nil where nothing was there, `new` where nothing is there any more.
    package struct Place: Sendable, Equatable {
        /// The way from the top of the document.
        package var path: JSONPath
        /// What was there.
        package var old: JSONValue?
        /// What is there.
        package var new: JSONValue?
    }

    /// The merge patch that leads from one to the other; nil where none can say it.
    package var patch: JSONValue?
    /// Every place that differs, members of objects one by one where both have an object.
    package var places: [Place] = []

    /// Compares what two documents have at a path.
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
