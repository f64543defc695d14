import LarderClientCore
import LarderEncoding

/// Checks that the settings are valid and that the agent uses them.
enum SettingsCheck {
    private static let name = "settings"

    /// Checks the settings file.
    /// - Parameter hints: creates the commands that root must run.
    static func findings(
        _ facts: SettingsFacts?, _ agent: AgentFacts?, _ service: ServiceFacts, _ hints: Hints = Hints()
    ) -> [Finding] {
        guard let facts else {
            return agent == nil
                ? [Finding(.skipped, name, "the settings file of this agent is unknown; pass --settings FILE")]
                : [Finding(.ok, name, "the agent runs without a settings file; the defaults are in effect")]
        }
        let path = facts.path
        if let deniedUser = facts.deniedUser {
            return [
                Finding(
                    .problem, name, "the agent's user \(deniedUser.userName) cannot read \(path)",
                    detail: [
                        "its owner and mode are \(deniedUser.permissions)"
                            + (agent == nil
                                ? "" : "; the agent keeps the settings that it has read, but could not start again")
                    ],
                    advice: [
                        "as root: chgrp \(deniedUser.groupName) \(path.shellWord); chmod 640 \(path.shellWord)",
                        "if that does not help, check the directories above the file: namei -l \(path.shellWord)",
                    ])
            ]
        }
        switch facts.state {
        case .missing where agent?.info.settings == path:
            return [
                Finding(
                    .problem, name, "\(path) no longer exists; the agent keeps the settings that it has read",
                    advice: ["restore it, or restart the agent to run it with the default settings"])
            ]
        case .missing where facts.isNamed:
            return [Finding(.problem, name, "\(path) does not exist", advice: ["correct --settings"])]
        case .missing: return [Finding(.ok, name, "\(path) does not exist; the defaults are in effect")]
        case .unreadable:
            return [
                Finding(
                    .skipped, name, "you cannot read \(path)",
                    advice: [
                        "run as root: "
                            + hints.command("sudo larder doctor\(facts.isNamed ? " --settings \(path.shellWord)" : "")")
                    ])
            ]
        case .unchecked(let reason): return [Finding(.skipped, name, "\(path) was not checked: \(reason)")]
        case .wrong(let lines) where !lines.contains { $0.hasPrefix("\(path):") }:
            return [
                Finding(
                    .problem, name, "the settings are valid, but files of the layers are not", detail: lines,
                    advice: ["correct them; until then the namespaces keep the previous content of these layers"])
            ]
        case .wrong(let lines):
            return [
                Finding(
                    .problem, name, "\(path) is invalid", detail: lines,
                    advice: [
                        agent == nil
                            ? "correct the file, then start the agent"
                            : "correct the file; the agent runs with the previous settings, but could not start again"
                    ] + (agent == nil ? [] : service.reloadCommands))
            ]
        case .right: return [right(facts, agent, service)]
        }
    }

    private static func right(_ facts: SettingsFacts, _ agent: AgentFacts?, _ service: ServiceFacts) -> Finding {
        guard let agent else { return Finding(.ok, name, "\(facts.path) is valid") }
        if let inForce = agent.info.settings, inForce != facts.path {
            return Finding(.ok, name, "\(facts.path) is valid; the agent uses \(inForce)")
        }
        if agent.info.settings == nil {
            return Finding(
                .warning, name, "\(facts.path) is valid, but the agent was started without it",
                advice: service.restartCommands)
        }
        guard let changed = facts.modifiedAt, changed > agent.info.settingsReadAt else {
            return Finding(.ok, name, "\(facts.path) is valid, and the agent has read it")
        }
        return Finding(
            .warning, name,
            "\(facts.path) is valid, but was changed \(Human.ago(milliseconds: agent.now.milliseconds - changed.milliseconds)), "
                + "after the agent had read it",
            detail: [
                "changes of socket, state, cache, log, service, current and images.enabled need a restart, others a reload"
            ],
            advice: service.reloadCommands)
    }
}
