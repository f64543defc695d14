import LarderJSON

/// What changes are judged by, and how they are applied.
struct ChangeContext: Sendable {
    /// What the layers resolve to.
    let resolved: JSONValue
    let limits: DocumentLimits
    /// In milliseconds since 1970.
    let now: Int
    /// Whether the operations are needed, because the journal records them.
    let recordsOperations: Bool
}

/// What a ``LayerChange`` did to the layers that it changed.
struct ChangeEffect: Sendable {
    /// What the journal records; nil if the journal does not record the change, or no change.
    var operation: LayerOperation?
    var difference = ResolvedDifference.any
    /// How long the override lasts that was set; nil for other changes.
    var lifetime: OverrideLifetime?
    /// Whether overrides are back that had been replaced or removed.
    var restoresOverrides = false
}

/// How changes of the layers change what these resolve to, as far as the changes themselves tell.
enum ResolvedDifference: Sendable {
    /// Nothing has changed.
    case none
    /// One scalar is replaced by another.
    /// - Parameter differs: whether the two differ
    case scalar(JSONValue.Replacement, differs: Bool)
    /// Scalars are replaced by others, which may be equal, and nothing else changes.
    case scalars([JSONValue.Replacement])
    /// Everything may have changed.
    case any

    /// The scalars that are replaced; nil if more may have changed.
    var replacements: [JSONValue.Replacement]? {
        switch self {
        case .none: []
        case .scalar(let replacement, _): [replacement]
        case .scalars(let replacements): replacements
        case .any: nil
        }
    }

    /// Adds a later difference.
    mutating func add(_ later: ResolvedDifference) {
        if case .none = self {
            self = later
        } else if let all = replacements, let added = later.replacements {
            self = .scalars(all + added)
        } else {
            self = .any
        }
    }
}
