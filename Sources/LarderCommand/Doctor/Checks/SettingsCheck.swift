import LarderClient

/// Are the settings valid, and does the agent use them?
enum SettingsCheck {
    private static let name = "settings"

    /// Checks the settings file.
    /// - Parameter hints: makes the commands that root is to run.
    static func findings(
        _ facts: SettingsFacts?, _ agent: AgentFacts?, _ service: ServiceFacts, _ hints: Hints = Hints()
    ) -> [Finding] {
        guard let facts else {
            return agent == nil
                ? [Finding(.skipped, name, "which file it is, is not known: name it with --settings")]
                : [Finding(.ok, name, "the agent runs without any: the defaults are in force")]
        }
        let path = facts.path
        if let hindered = facts.hindered {
            return [
                Finding(
                    .problem, name, "\(path) may not be read by \(hindered.userName), who runs the agent",
                    detail: [
                        "it is \(hindered.permissions)"
                            + (agent == nil
                                ? "" : "; the agent goes on with what it had read, but could not start again")
                    ],
                    advice: [
                        "as root: chgrp \(hindered.groupName) \(path); chmod 640 \(path)",
                        "if it still may not, a directory on the way keeps it: namei -l \(path)",
                    ])
            ]
        }
        switch facts.state {
        case .missing where agent?.info.settings == path:
            return [
                Finding(
                    .problem, name, "\(path) is gone; the agent goes on with what it had read",
                    advice: ["put it back, or restart the agent to run it without settings"])
            ]
        case .missing where facts.isNamed:
            return [Finding(.problem, name, "there is no file \(path)", advice: ["correct --settings"])]
        case .missing: return [Finding(.ok, name, "there is no \(path): the defaults are in force")]
        case .unreadable:
            return [
                Finding(
                    .skipped, name, "\(path) may not be read by you",
                    advice: [
                        "run this as root: "
                            + hints.command("sudo larder doctor\(facts.isNamed ? " --settings \(path.shellWord)" : "")")
                    ])
            ]
        case .unchecked(let reason): return [Finding(.skipped, name, "\(path) was not checked: \(reason)")]
        case .wrong(let lines) where !lines.contains { $0.hasPrefix("\(path):") }:
            return [
                Finding(
                    .problem, name, "the settings are right, but files of the layers are not", detail: lines,
                    advice: ["correct them; until then the namespaces keep what the layers said before"])
            ]
        case .wrong(let lines):
            return [
                Finding(
                    .problem, name, "\(path) is wrong", detail: lines,
                    advice: [
                        agent == nil
                            ? "correct it, then start the agent"
                            : "correct it; the agent runs with the previous settings, but could not start again"
                    ] + (agent == nil ? [] : service.howToReload))
            ]
        case .right: return [right(facts, agent, service)]
        }
    }

    private static func right(_ facts: SettingsFacts, _ agent: AgentFacts?, _ service: ServiceFacts) -> Finding {
        guard let agent else { return Finding(.ok, name, "\(facts.path) is right") }
        if let inForce = agent.info.settings, inForce != facts.path {
            return Finding(.ok, name, "\(facts.path) is right; the agent runs with \(inForce)")
        }
        if agent.info.settings == nil {
            return Finding(
                .warning, name, "\(facts.path) is right, but the agent was started without it",
                advice: service.howToRestart)
        }
        guard let changed = facts.modifiedAt, changed > agent.info.settingsReadAt else {
            return Finding(.ok, name, "\(facts.path) is right, and the agent has read it")
        }
        return Finding(
            .warning, name,
            "\(facts.path) is right, and was changed after the agent had read it, "
                + Human.ago(milliseconds: agent.now.milliseconds - changed.milliseconds),
            detail: [
                "socket, state, cache, log, service, current and images.enabled need a restart, all else a reload"
            ],
            advice: service.howToReload)
    }
}
