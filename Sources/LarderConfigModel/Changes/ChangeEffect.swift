import LarderJSON

/// The configuration, limits and time by which changes are checked and applied.
struct ChangeContext: Sendable {
    /// The resolved configuration.
    var resolved: JSONValue
    let limits: DocumentLimits
    /// In milliseconds since 1970.
    let now: Int
    /// Whether the journal may have to record the changes. Only then must a change return its operation.
    let recordsOperations: Bool
    /// The revision and epoch of the current snapshot.
    var revision = 0
    var epoch = ""
    /// Why the client requested the change; nil if it gave no reason.
    var reason: String?
}

/// The effect of a ``LayerChange`` on the layers.
struct ChangeEffect: Sendable {
    /// The operation to record in the journal; nil if the journal does not record the change.
    var operation: LayerOperation?
    var difference = ResolvedDifference.any
    /// The lifetime of the override that was set; nil for other changes.
    var lifetime: OverrideLifetime?
    /// Whether the change restored overrides that had been replaced or removed.
    var restoresOverrides = false
}

/// How changes affect the resolved configuration, as far as this is known without resolving the layers.
enum ResolvedDifference: Sendable {
    case none
    /// One scalar is replaced by another one.
    /// - Parameter differs: whether the two scalars have different values
    case scalar(JSONValue.Replacement, differs: Bool)
    /// Scalars are replaced by others, possibly equal ones, and nothing else changes.
    case scalars([JSONValue.Replacement])
    /// Anything may have changed.
    case any

    /// The replaced scalars; nil if anything may have changed.
    var replacements: [JSONValue.Replacement]? {
        switch self {
        case .none: []
        case .scalar(let replacement, _): [replacement]
        case .scalars(let replacements): replacements
        case .any: nil
        }
    }

    /// Adds the difference that a later change makes.
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
