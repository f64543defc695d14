import LarderJSON

extension LayerChange {
    /// The violations as the reply to this change reports them: with the value found if the change contains it.
    package func quoting(_ problems: [SchemaProblem]) -> [SchemaProblem] {
        problems.map { problem in
            var shown = problem.withoutValue
            // An object may have members of other layers, which the change does not contain.
            if let text = problem.messageWithValue, let value = content(at: problem.path.segments, problem.layer),
                value.kind != .object
            {
                shown.message = text
            }
            return shown
        }
    }

    /// The value at a path that a client's change contains for a layer; nil for none.
    private func content(at path: [String], _ layer: ConfigLayer?) -> JSONValue? {
        switch self {
        case .set(let own, let value, _, _) where layer == .override && path.begins(withNames: own):
            value.value(at: JSONPath(Array(path[own.count...])))
        case .remote(let document, _, _, isPush: true) where layer == .remote:
            document.value.value(at: JSONPath(path))
        case .several(let changes, _): changes.lazy.reversed().compactMap { $0.content(at: path, layer) }.first
        case .requested(let change, _): change.content(at: path, layer)
        default: nil
        }
    }
}
