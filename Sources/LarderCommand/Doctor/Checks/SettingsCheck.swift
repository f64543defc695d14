import LarderClientCore
import LarderEncoding
import LarderProtocol

/// Checks that the settings are valid and that the agent uses them.
enum SettingsCheck {
    static let name = "settings"
    /// The advice for a settings file that does not exist. A restart would not help, because an agent that was started with
    /// `--settings` would run with the saved settings.
    private static let creation =
        "restore the file, or create it with the content {} for the default settings, then reload it:"

    /// Checks the settings file.
    /// - Parameters:
    ///   - hints: creates the commands that root must run.
    ///   - problem: why the agent rejected the settings file; nil if it uses the file
    static func findings(
        _ facts: SettingsFacts?, _ agent: AgentFacts?, _ service: ServiceFacts, _ hints: Hints = Hints(),
        problem: String? = nil
    ) -> [Finding] {
        let found = findingsOfFile(facts, agent, service, hints, problem: problem)
        guard let ignored = facts?.ignoredFiles, !ignored.isEmpty else { return found }
        let advice = "rename files that are to be read, and move the others to another directory"
        return found + [
            Finding(
                .warning, name, "files beside those of settings and layers are not read", detail: ignored,
                advice: [advice])
        ]
    }

    private static func findingsOfFile(
        _ facts: SettingsFacts?, _ agent: AgentFacts?, _ service: ServiceFacts, _ hints: Hints, problem: String?
    ) -> [Finding] {
        if let problem, facts?.deniedUser == nil {
            return [agent == nil ? awaited(problem, facts) : rejected(problem, facts, agent, service)]
        }
        guard let facts else {
            return agent == nil
                ? [Finding(.skipped, name, "the settings file of this agent is unknown; pass --settings FILE")]
                : [Finding(.ok, name, "the agent runs without a settings file; the defaults are in effect")]
        }
        let path = facts.path
        if let deniedUser = facts.deniedUser { return [denied(path, deniedUser, agent)] }
        switch facts.state {
        case .missing where agent?.info.settings == path:
            return [
                Finding(
                    .problem, name, "\(path) no longer exists; the agent keeps the settings that it has read",
                    advice: [creation] + service.reloadCommands(of: agent))
            ]
        case .missing where facts.isNamed:
            return [Finding(.problem, name, "\(path) does not exist", advice: ["correct --settings"])]
        case .missing where agent == nil:
            return [
                Finding(
                    .ok, name,
                    "\(path) does not exist; the agent starts with the settings that it saved last, or with the defaults"
                )
            ]
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
        case .wrong(let lines) where !facts.isInvalid:
            // A running agent keeps what it has read from the files. If it could not read them, the checks of the namespaces
            // and of the image cache report the consequence.
            return [
                Finding(
                    agent == nil ? .problem : .warning, name, "files that the settings name are missing or invalid",
                    detail: lines,
                    advice: [
                        agent == nil
                            ? "correct them"
                            : "correct them; the agent uses what it has read from these files before, if anything"
                    ])
            ]
        case .wrong(let lines):
            return [
                Finding(
                    .problem, name, "\(path) is invalid", detail: lines,
                    advice: [
                        agent == nil
                            ? "correct the file, then start the agent"
                            : "correct the file; \(retention(agent))"
                    ] + (agent == nil ? [] : service.reloadCommands(of: agent)))
            ]
        case .right: return [right(facts, agent, service)]
        }
    }

    /// The finding that the agent's user cannot read the file, with the command that gives access.
    private static func denied(_ path: String, _ user: SettingsFacts.DeniedUser, _ agent: AgentFacts?) -> Finding {
        let directory = user.closedDirectory
        let cause = directory.map { "the user cannot enter \($0.path); its" } ?? "its"
        var advice = ["as root: chgrp \(user.group.shellWord) \(path.shellWord) && chmod 640 \(path.shellWord)"]
        if let directory {
            advice = [
                "as root: chmod \(directory.modeChange) \(directory.path.shellWord)",
                "or move the file to a directory that the user can enter, such as /etc/larder",
            ]
        }
        return Finding(
            .problem, name, "the agent's user \(user.userName) cannot read \(path)",
            detail: [
                "\(cause) owner and mode are \(user.permissions)" + (agent == nil ? "" : "; \(retention(agent))")
            ],
            advice: advice)
    }

    /// How long the agent keeps the settings in force. If they are not saved, a restart uses older ones or fails.
    private static func retention(_ agent: AgentFacts?) -> String {
        let isSaved = agent?.info.problems.contains { $0.name == "settingsCopy" } != true
        return "the agent keeps the settings in force, \(isSaved ? "also after a restart" : "but not after a restart")"
    }

    /// The finding that the agent runs with earlier settings, because it rejected those of the file.
    static func rejected(
        _ problem: String, _ facts: SettingsFacts? = nil, _ agent: AgentFacts? = nil, _ service: ServiceFacts = .absent
    ) -> Finding {
        let errors = errors(facts)
        let age = agent.map { $0.info.settingsReadAt.ago(at: $0.now) }
        // The agent rejects the absence of a file that it used before, even if the files of larder.d are valid.
        let isMissing =
            facts.map { facts in
                facts.path == agent?.info.settings
                    && (facts.state == .missing || !facts.exists && problem.hasPrefix("\(facts.path): "))
            } ?? false
        let isCorrected = !isMissing && (facts?.state == .right || errors != nil && facts?.isInvalid == false)
        let correction = isMissing ? creation : "correct the file, then reload it:"
        return Finding(
            .problem, name,
            "the agent runs with earlier settings\(age.map { " (read \($0))" } ?? ""), because it rejected the settings file",
            detail: [problem] + (errors?.filter { $0 != problem } ?? []),
            advice: [isCorrected ? "the file is valid now; reload it:" : correction]
                + service.reloadCommands(of: agent))
    }

    /// The finding that the agent waits for valid settings.
    private static func awaited(_ problem: String, _ facts: SettingsFacts?) -> Finding {
        Finding(
            .problem, name, "the agent has no valid settings, so it refuses all requests",
            detail: [problem] + (errors(facts)?.filter { !problem.hasSuffix($0) } ?? []),
            advice: ["correct the file, or create it if it does not exist; the agent starts with it within a second"])
    }

    /// The errors that the check of the file has found; nil without errors.
    private static func errors(_ facts: SettingsFacts?) -> [String]? {
        guard let facts, case .wrong(let lines) = facts.state else { return nil }
        return lines
    }

    private static func right(_ facts: SettingsFacts, _ agent: AgentFacts?, _ service: ServiceFacts) -> Finding {
        let path = facts.exists ? facts.path : facts.directory
        guard let agent else { return Finding(.ok, name, "\(path) is valid") }
        if let inForce = agent.info.settings, inForce != facts.path {
            return Finding(.ok, name, "\(path) is valid; the agent uses \(inForce)")
        }
        if agent.info.settings == nil {
            return Finding(
                .warning, name, "\(path) is valid, but the agent was started without it",
                advice: service.restartCommands)
        }
        guard let changed = facts.modifiedAt, changed > agent.info.settingsReadAt else {
            return Finding(.ok, name, "\(path) is valid, and the agent has read it")
        }
        return Finding(
            .warning, name,
            "\(path) is valid, but was changed \(changed.ago(at: agent.now)), "
                + "after the agent had read it",
            detail: [
                "changes of socket, state, cache, service, current and images.enabled need a restart, others a reload"
            ],
            advice: service.reloadCommands(of: agent))
    }
}

/// Checks whether the proxies of the settings open tunnels to the servers of sources and of image origins.
enum ProxyCheck {
    private static let name = "proxy"

    static func findings(_ facts: SettingsFacts?) -> [Finding] {
        (facts?.proxies ?? []).map { proxy in
            var detail = ["used by \(proxy.setting)"]
            if proxy.isFromOwnEnvironment {
                detail.append(
                    "tested with the variables of this command, which may differ from those of the agent; run doctor as root"
                )
            }
            guard let problem = proxy.problem else {
                let success = proxy.target.map { "opens a tunnel to \($0)" } ?? "accepts connections"
                return Finding(
                    .ok, name, "\(proxy.place) \(success)", detail: proxy.isFromOwnEnvironment ? detail : [])
            }
            if proxy.isUntested { return Finding(.skipped, name, "\(proxy.place) was not tested: \(problem)") }
            // The first part is the problem, the others are what to do.
            let parts = problem.split(separator: "; ").map(String.init)
            return Finding(.problem, name, parts[0], detail: detail, advice: Array(parts.dropFirst()))
        }
    }
}

/// Checks whether the schemas of the namespaces can be used, and whether they have rejected content.
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
        return [
            Finding(
                .ok, name,
                "\(names.joined(separator: ", ")): in force, and nothing was rejected since the agent started"
            )
        ]
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
        if let rejection = namespace.schemaRejection {
            let what =
                rejection.layer.map { "new content of layer \($0)" } ?? "new locks or experiments of the settings"
            findings.append(
                Finding(
                    .warning, Self.name, "\(name): the schema rejects \(what); the previous content stays in use",
                    detail: rejection.errors.map(\.text),
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
