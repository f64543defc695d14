import LarderClient

/// What may this user do?
enum RightsCheck {
    private static let name = "rights"

    static func findings(_ facts: AgentFacts) -> [Finding] {
        guard let rights = facts.rights else {
            return [Finding(.skipped, name, "this agent (\(facts.info.version)) does not tell them: it is older")]
        }
        let detail = facts.namespaceRights.sorted { $0.key < $1.key }.map { name, rights in
            "in namespace \(name): \(rights.isEmpty ? "none" : rights.joined(separator: ", "))"
        }
        if rights.isEmpty, facts.namespaceRights.allSatisfy(\.value.isEmpty) {
            return [
                Finding(
                    .warning, name, "you may connect, but have no rights", detail: detail,
                    advice: ["who has which, the settings say: access in larder.json(5)"])
            ]
        }
        return [Finding(.ok, name, rights.isEmpty ? "none in general" : rights.joined(separator: ", "), detail: detail)]
    }
}
