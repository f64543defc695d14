import LarderClient

/// Do the agent and this program have the same version?
enum VersionCheck {
    private static let name = "version"

    static func findings(_ facts: AgentFacts, _ service: ServiceFacts, own: String = larderVersion) -> [Finding] {
        let theirs = facts.info.version
        if theirs == own { return [Finding(.ok, name, "larder and the agent are both \(own)")] }
        return [
            Finding(
                .warning, name, "larder is \(own), but the agent that runs is \(theirs)",
                detail: ["it may be older than what is installed"], advice: service.howToRestart)
        ]
    }
}

/// Which rights does this user have?
enum RightsCheck {
    private static let name = "rights"

    static func findings(_ facts: AgentFacts) -> [Finding] {
        let rights = facts.info.rights
        let detail = facts.info.namespaceRights.sorted { $0.key < $1.key }.map { name, rights in
            "in namespace \(name): \(list(rights))"
        }
        if rights.isEmpty, facts.info.namespaceRights.allSatisfy(\.value.isEmpty) {
            return [
                Finding(
                    .warning, name, "you may connect, but have no rights", detail: detail,
                    advice: ["who has which, the settings say: access in larder.json(5)"])
            ]
        }
        return [Finding(.ok, name, rights.isEmpty ? "none in general" : list(rights), detail: detail)]
    }

    private static func list(_ rights: [Right]) -> String {
        rights.isEmpty ? "none" : rights.map(\.rawValue).joined(separator: ", ")
    }
}
