import LarderClient

/// Are the agent and this program of the same version?
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
