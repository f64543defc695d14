import JSON

/// What a merge patch (RFC 7396) has to say at a path.
enum PatchSaying: Equatable {
    /// Nothing: what was there stays.
    case nothing
    /// A value, which replaces what was there or merges with it.
    case value(JSONValue)
    /// That nothing is there: a null at the path or above it, or above it something that has no members.
    case hides
}

extension JSONValue {
    /// What the value says at a path, as a merge patch.
    func says(at path: some Collection<String>) -> PatchSaying {
        guard let name = path.first else { return isNull ? .hides : .value(self) }
        switch kind {
        case .object: return self[name]?.says(at: path.dropFirst()) ?? .nothing
        case .array: return value(at: JSONPath(Array(path))).map(PatchSaying.value) ?? .hides
        case .null, .bool, .number, .string: return .hides
        }
    }
}
