import LarderClientCore

/// Checks whether the schemas of the namespaces can be used, and whether they have refused content.
enum SchemaCheck {
    private static let name = "schema"

    /// - Parameter settings: the settings file. A schema that its check reports is not called valid here.
    static func findings(
        _ facts: AgentFacts, _ hints: Hints = Hints(), settings: SettingsFacts? = nil
    ) -> [Finding] {
        // Another check reports an agent without a status.
        guard case .success(let status) = facts.status else { return [] }
        let namespaces = status.namespaces.filter { $0.schema != nil }
        let found = namespaces.flatMap { findings($0, hints) }
        let names = namespaces.filter { settings?.reports($0.schema?.path) != true }.map(\.namespace)
        if !found.isEmpty || names.isEmpty { return found }
        return [Finding(.ok, name, "\(names.joined(separator: ", ")): in force, and nothing was refused since the agent started")]
    }

    /// The findings about one namespace; empty if there is no problem, or no schema.
    static func findings(_ namespace: ConfigStatus.Namespace, _ hints: Hints) -> [Finding] {
        let name = namespace.namespace
        var findings: [Finding] = []
        if let schema = namespace.schema, let problem = schema.problem {
            findings.append(
                Finding(
                    .problem, Self.name, "\(name): the schema cannot be used, so \(schema.effectOfProblem)",
                    detail: [problem],
                    advice: ["correct \(schema.path); the agent reads the file again when it changes"]))
        }
        if let schema = namespace.schema, !schema.errors.isEmpty {
            findings.append(
                Finding(
                    .warning, Self.name,
                    namespace.revision > 0
                        ? "\(name): revision \(namespace.revision) violates the schema"
                        : "\(name): nothing is published, because the configuration violates the schema",
                    detail: schema.errors.map(\.text)))
        }
        if let refusal = namespace.schemaRefusal {
            let what = refusal.layer.map { "new content of layer \($0)" } ?? "new locks or experiments of the settings"
            findings.append(
                Finding(
                    .warning, Self.name, "\(name): the schema refuses \(what); the previous content stays in use",
                    detail: refusal.errors.map(\.text),
                    advice: ["correct the values at their source; the agent then accepts the content"]))
        }
        return findings
    }
}

extension ConfigStatus.SchemaState {
    /// The consequence of ``problem``.
    var effectOfProblem: String {
        digest == nil ? "nothing is validated" : "the schema that could be used last stays in force"
    }
}
