import JSON

/// What a `set` changed in the override layer, where that says what it changed in the configuration: the layer is the
/// highest one.
enum OverrideEdit: Sendable {
    /// A scalar took the place of another one.
    case replacement(JSONValue.Replacement)
    /// An entry came behind all others.
    case addition(OverrideLayer.Entry)
}

/// All that changed in the layers, so that the configuration need not be resolved anew, which takes the longer the more
/// overrides there are.
struct OverrideEdits: Sendable {
    private var replacements: [JSONValue.Replacement] = []
    private var additions: [OverrideLayer.Entry] = []

    mutating func append(_ edit: OverrideEdit) {
        switch edit {
        case .replacement(let replacement): replacements.append(replacement)
        case .addition(let entry): additions.append(entry)
        }
    }

    /// What a configuration becomes by them.
    /// - Returns: nil where one changes what another one is about, or a scalar is not where it was set.
    func applied(to value: JSONValue) -> JSONValue? {
        let extended =
            additions.isEmpty ? value : MergePatch.merge([value] + OverrideLayer(entries: additions).patches())
        return replacements.isEmpty ? extended : extended.replacing(replacements)
    }
}
