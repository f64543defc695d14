import JSON

/// The names that led nowhere, in the order of the template, each once.
struct MissingNames {
    private var names: [String] = []
    private var areMore = false

    /// As many as an error can be read with.
    private static let most = 20

    mutating func note(_ path: [String]) {
        if areMore { return }
        let name = JSONPath(path).description
        if names.contains(name) { return }
        if names.count == Self.most { areMore = true } else { names.append(name) }
    }

    /// What to say about them, if there are any.
    var error: TemplateError? {
        if names.isEmpty { return nil }
        let list = names.map(\.shownName).joined(separator: ", ")
        return TemplateError(missing: "nothing is at \(list)\(areMore ? " and at others" : "")")
    }
}
