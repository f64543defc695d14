import LarderClient

/// Does systemd run the agent, and in which state is the service?
enum ServiceCheck {
    private static let name = "service"

    static func findings(_ facts: ServiceFacts, agent: AgentFacts?, log: [String]) -> [Finding] {
        let isAnswered = agent != nil
        switch facts {
        case .absent: return [Finding(.skipped, name, "systemd does not run here")]
        case .unknown(let reason): return [Finding(.skipped, name, "systemd cannot be asked: \(reason)")]
        case .units(let units):
            guard !units.service.isAbsent || !units.socket.isAbsent else {
                return [
                    Finding(
                        isAnswered ? .ok : .skipped, name,
                        "systemd has no larder.service\(units.isUser ? " for you" : ""); whoever starts the agent does so in "
                            + "another way")
                ]
            }
            // A failed unit is always reported as such, even if another agent replies.
            if let agent, !units.service.isUp, !units.socket.isUp, !facts.hasFailed { return [foreign(agent, units)] }
            return socket(units, isAnswered) + service(units, isAnswered, log)
        case .another:
            return [Finding(.skipped, name, "not looked at: larder.service has another socket than the one you name")]
        }
    }

    private static func socket(_ units: ServiceFacts.Units, _ isAnswered: Bool) -> [Finding] {
        let unit = units.socket
        guard unit.isLoaded else { return unusable(unit, "larder.socket", units, isAnswered) }
        switch unit.activeState {
        case "failed":
            let gaveUp = unit.result == "service-start-limit-hit"
            return [
                Finding(
                    .problem, name,
                    gaveUp
                        ? "larder.socket failed: systemd gave it up, because larder.service failed again and again"
                        : "larder.socket failed (\(unit.result))",
                    detail: ["so nobody can connect, and the agent is not started for them"],
                    advice: [
                        "see why: \(units.journalctl(gaveUp ? "larder.service" : "larder.socket"))",
                        // Without this the start limit would refuse the next start immediately.
                        "then: \(units.systemctl("reset-failed larder.service larder.socket"))",
                        "and: \(units.systemctl("start larder.socket"))",
                    ])
            ]
        case "active", "activating":
            if unit.isDisabled {
                return [
                    Finding(
                        .warning, name, "larder.socket is active, but not started at boot",
                        advice: [units.systemctl("enable larder.socket")])
                ]
            }
            return []
        default:
            return [
                Finding(
                    isAnswered ? .warning : .problem, name, "larder.socket is \(unit.activeState)",
                    detail: isAnswered ? ["without it clients fail while the agent restarts"] : [],
                    advice: [units.systemctl("enable --now larder.socket")])
            ]
        }
    }

    /// The finding that an agent replies although systemd does not run it. Starting the service would take the socket's
    /// path from that agent.
    private static func foreign(_ agent: AgentFacts, _ units: ServiceFacts.Units) -> Finding {
        let pid = agent.info.pid
        let unit = units.socket.isAbsent ? "larder.service" : "larder.socket"
        return Finding(
            .warning, name,
            "systemd does not run the agent that answers (process \(pid)): \(unit) is \(state(unit, units))",
            detail: ["somebody started it in another way; nothing starts it again, and both would use the same socket"],
            advice: ["to have systemd run it, stop that one first: \(units.isRoot ? "" : "sudo ")kill \(pid)"]
                + units.unmasking + [units.systemctl("enable --now \(unit)")])
    }

    private static func state(_ unit: String, _ units: ServiceFacts.Units) -> String {
        let facts = unit == "larder.socket" ? units.socket : units.service
        return facts.isLoaded ? facts.activeState : facts.isMasked ? "masked" : "not usable (\(facts.loadState))"
    }

    /// The findings for a unit that systemd has but cannot start; empty if it has no such unit.
    private static func unusable(
        _ unit: UnitFacts, _ name: String, _ units: ServiceFacts.Units, _ isAnswered: Bool
    ) -> [Finding] {
        if unit.isAbsent { return [] }
        let level: Finding.Level = isAnswered ? .warning : .problem
        if unit.isMasked {
            return [
                Finding(
                    level, self.name, "\(name) is masked: nothing can start it",
                    advice: [
                        units.systemctl("unmask \(name)"),
                        "then: \(units.systemctl(name.hasSuffix(".socket") ? "enable --now \(name)" : "start \(name)"))",
                    ])
            ]
        }
        let scope = units.isUser ? "--user " : ""
        return [
            Finding(
                level, self.name, "systemd cannot use \(name): its file is wrong (\(unit.loadState))",
                detail: unit.loadError.map { [$0] } ?? [],
                advice: [
                    "see what is wrong: systemd-analyze \(scope)verify \(name), and systemctl \(scope)status \(name)",
                    "correct it (systemctl \(scope)cat \(name)), then: \(units.systemctl("daemon-reload"))",
                ])
        ]
    }

    private static func service(_ units: ServiceFacts.Units, _ isAnswered: Bool, _ log: [String]) -> [Finding] {
        let unit = units.service
        guard unit.isLoaded else { return unusable(unit, "larder.service", units, isAnswered) }
        let state = "larder.service is \(unit.activeState)\(unit.subState.isEmpty ? "" : " (\(unit.subState))")"
        if unit.activeState == "failed" || (unit.subState == "auto-restart") {
            return [
                Finding(
                    .problem, name, "\(state): \(reason(unit))", detail: quoted(log),
                    advice: remedies(unit, units) + [
                        "see all of it: \(units.journalctl("larder.service"))",
                        units.systemctl("restart larder.service"),
                    ])
            ]
        }
        if unit.restarts > 0 {
            return [
                Finding(
                    .warning, name, "\(state), and systemd had to start it again \(times(unit.restarts))",
                    advice: ["see why: \(units.journalctl("larder.service"))"])
            ]
        }
        switch unit.activeState {
        case "active", "reloading":
            let watchdog = unit.hasWatchdog ? "watched" : "without a watchdog"
            return [Finding(.ok, name, "\(state), \(watchdog), never had to be started again")]
        case "activating", "deactivating":
            return [
                Finding(
                    .warning, name, "\(state); wait a moment",
                    advice: ["if it stays so: \(units.journalctl("larder.service"))"])
            ]
        default:
            if units.socket.activeState == "active" {
                return [Finding(.ok, name, "\(state); larder.socket starts it for the first client")]
            }
            return [
                Finding(
                    isAnswered ? .warning : .problem, name, state,
                    advice: [units.systemctl("start larder.service")])
            ]
        }
    }

    /// Explains systemd's `Result` property.
    private static func reason(_ unit: UnitFacts) -> String {
        switch unit.result {
        case "exit-code" where unit.exitStatus == 78: "its settings are wrong"
        case "exit-code" where (200...243).contains(unit.exitStatus):
            "systemd could not prepare it (exit status \(unit.exitStatus), systemd.exec(5))"
        case "exit-code": "it ended with status \(unit.exitStatus)"
        case "watchdog": "it no longer answered the watchdog, and was killed"
        case "signal", "core-dump": "it was ended by signal \(unit.exitStatus)"
        case "oom-kill": "the system ran out of memory, and it was killed"
        case "start-limit-hit": "it failed too often in a short time, and systemd has given up"
        case "timeout": "it did not start or stop in time"
        case "resources": "the system had no resources for it"
        default: unit.result
        }
    }

    private static func remedies(_ unit: UnitFacts, _ units: ServiceFacts.Units) -> [String] {
        switch unit.result {
        case "exit-code" where unit.exitStatus == 78: ["correct the settings (below)"]
        case "start-limit-hit": [units.systemctl("reset-failed larder.service larder.socket")]
        case "oom-kill": ["see who needs the memory: systemd-cgtop -m, and MemoryMax= of the unit"]
        default: []
        }
    }

    private static func times(_ count: Int) -> String { count == 1 ? "once" : "\(count) times" }

    private static func quoted(_ log: [String]) -> [String] {
        log.isEmpty ? [] : ["the last lines of its log:"] + log.map { "  \($0)" }
    }
}
