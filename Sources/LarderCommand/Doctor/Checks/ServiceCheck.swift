import LarderClientCore
import LarderProtocol

/// Checks whether systemd manages the agent, and whether the service and its socket work.
enum ServiceCheck {
    static let name = "service"

    /// Checks the units.
    /// - Parameter settings: the settings file; nil if it is unknown. If it prevents a start, the advice to start the
    ///   agent refers to the finding about the settings.
    static func findings(
        _ facts: ServiceFacts, agent: AgentFacts?, settings: SettingsFacts?, log: [String]
    ) -> [Finding] {
        let isReachable = agent != nil
        switch facts {
        case .absent: return [Finding(.skipped, name, "systemd is not running on this host")]
        case .unknown(let reason): return [Finding(.skipped, name, "cannot query systemd: \(reason)")]
        case .units(let units):
            guard !units.service.isAbsent || !units.socket.isAbsent else {
                return [
                    Finding(
                        isReachable ? .ok : .skipped, name,
                        "systemd does not manage the agent: there is no larder.service"
                            + (units.isUser ? " for this user" : ""))
                ]
            }
            // A failed unit is reported as failed even if an agent that systemd did not start is running.
            if let agent, !units.service.isUp, !units.socket.isUp, !facts.hasFailed { return [foreign(agent, units)] }
            let first = StartAdvice.precondition(settings)
            if units.service.isMasked, units.socket.isMasked { return [masked(units, isReachable, first)] }
            let findings = [socket(units, isReachable, first), service(units, isReachable, first, settings, log)]
            // systemd closes the socket if the service fails repeatedly.
            return (facts.hasFailed ? findings.reversed() : findings).compactMap(\.self)
        case .another:
            return [Finding(.skipped, name, "not checked, because larder.socket listens on another path")]
        }
    }

    /// The finding that neither unit can be started. A unit alone would still need the other one.
    private static func masked(_ units: ServiceFacts.Units, _ isReachable: Bool, _ first: [String]) -> Finding {
        Finding(
            isReachable ? .warning : .problem, name,
            "larder.socket and larder.service are masked and cannot be started",
            detail: isReachable ? ["the running agent cannot be started again after it has stopped"] : [],
            advice: units.unmasking + first + [units.systemctl("enable --now larder.socket larder.service")])
    }

    /// - Parameter first: advice that precedes the commands that start the agent
    private static func socket(_ units: ServiceFacts.Units, _ isReachable: Bool, _ first: [String]) -> Finding? {
        let unit = units.socket
        guard unit.isLoaded else { return unusable(unit, "larder.socket", units, isReachable) }
        switch unit.activeState {
        case "failed":
            let gaveUp = unit.result == "service-start-limit-hit"
            return Finding(
                .problem, name,
                gaveUp
                    ? "larder.socket failed: systemd closed it, because larder.service failed repeatedly"
                    : "larder.socket failed (\(unit.result))",
                detail: ["clients cannot connect, and systemd does not start the agent for them"],
                advice: first + [
                    "see why: \(units.journalctl(gaveUp ? "larder.service" : "larder.socket"))",
                    // Without reset-failed, systemd's start limit would refuse the next start immediately.
                    "then: \(units.systemctl("reset-failed larder.service larder.socket"))",
                    "and: \(units.systemctl("start larder.socket"))",
                ])
        case "active", "activating":
            if unit.isDisabled {
                return Finding(
                    .warning, name, "larder.socket is active, but is not started at boot",
                    advice: [units.systemctl("enable larder.socket")])
            }
            return nil
        default:
            return Finding(
                isReachable ? .warning : .problem, name, "larder.socket is \(unit.activeState)",
                detail: isReachable ? ["without it, clients cannot connect while the agent restarts"] : [],
                advice: first + units.enableSocket)
        }
    }

    /// The finding that the running agent was not started by systemd. Starting the service would replace the socket of
    /// that agent.
    private static func foreign(_ agent: AgentFacts, _ units: ServiceFacts.Units) -> Finding {
        let pid = agent.info.pid
        let unit = units.socket.isAbsent ? "larder.service" : "larder.socket"
        return Finding(
            .warning, name,
            "systemd does not manage the running agent (process \(pid)): \(unit) is \(state(unit, units))",
            detail: [
                "the agent was started in another way: systemd does not restart it, and an agent that systemd "
                    + "starts would use the same socket"
            ],
            advice: ["to run the agent under systemd, first stop this one: \(units.isRoot ? "" : "sudo ")kill \(pid)"]
                + units.unmasking + [units.systemctl("enable --now \(unit)")])
    }

    private static func state(_ unit: String, _ units: ServiceFacts.Units) -> String {
        let facts = unit == "larder.socket" ? units.socket : units.service
        return facts.isLoaded ? facts.activeState : facts.isMasked ? "masked" : "not usable (\(facts.loadState))"
    }

    /// The finding for a unit that systemd has but cannot start, for example because it is masked; nil if systemd can
    /// start it or does not have it.
    private static func unusable(
        _ unit: UnitFacts, _ name: String, _ units: ServiceFacts.Units, _ isReachable: Bool
    ) -> Finding? {
        if unit.isAbsent { return nil }
        let level: Finding.Level = isReachable ? .warning : .problem
        if unit.isMasked {
            return Finding(
                level, self.name, "\(name) is masked and cannot be started",
                advice: [
                    units.systemctl("unmask \(name)"),
                    "then: \(units.systemctl(name.hasSuffix(".socket") ? "enable --now \(name)" : "start \(name)"))",
                ])
        }
        let scope = units.isUser ? "--user " : ""
        return Finding(
            level, self.name, "systemd cannot load \(name): its unit file is invalid (\(unit.loadState))",
            detail: unit.loadError.map { [$0] } ?? [],
            advice: [
                "find the error: systemd-analyze \(scope)verify \(name); systemctl \(scope)status \(name)",
                "correct the file (systemctl \(scope)cat \(name) shows it), then: \(units.systemctl("daemon-reload"))",
            ])
    }

    private static func service(
        _ units: ServiceFacts.Units, _ isReachable: Bool, _ first: [String], _ settings: SettingsFacts?, _ log: [String]
    ) -> Finding? {
        let unit = units.service
        guard unit.isLoaded else { return unusable(unit, "larder.service", units, isReachable) }
        let state = "larder.service is \(unit.state)"
        if unit.activeState == "failed" || (unit.subState == "auto-restart") {
            return Finding(
                .problem, name, "\(state): \(reason(unit))", detail: quoted(log),
                advice: first + remedies(unit, units, settings) + [
                    "see the whole log: \(units.journalctl("larder.service"))",
                    units.systemctl("restart larder.service"),
                ])
        }
        if let restarts = Self.restarts(.units(units)) { return restarts }
        switch unit.activeState {
        case "active", "reloading":
            let watchdog = unit.hasWatchdog ? "with" : "without"
            let restarts = unit.restarts > 0 ? Self.restarts(unit) : "no restarts after failures"
            return Finding(.ok, name, "\(state) \(watchdog) watchdog, \(restarts)")
        case "activating", "deactivating":
            return Finding(
                .warning, name, "\(state); wait a moment",
                advice: ["if the state does not change: \(units.journalctl("larder.service"))"])
        default:
            if units.socket.activeState == "active" {
                return Finding(.ok, name, "\(state); larder.socket starts it when a client connects")
            }
            return Finding(
                isReachable ? .warning : .problem, name, state,
                advice: first + [units.systemctl("start larder.service")])
        }
    }

    /// The finding that systemd had to restart the running service in the last day; nil if it had not.
    static func restarts(_ facts: ServiceFacts) -> Finding? {
        guard case .units(let units) = facts, !facts.hasFailed, units.hasRestarted else { return nil }
        return Finding(
            .warning, name, "larder.service is \(units.service.state), but \(restarts(units.service))",
            detail: units.lastFailure.map { ["the last time, \($0)"] } ?? [],
            advice: ["see why: \(units.journalctl("larder.service"))"])
    }

    private static func restarts(_ unit: UnitFacts) -> String {
        let count = "systemd had to restart it \(times(unit.restarts))"
        guard let time = unit.activeTime else { return count }
        return "\(count), the last time \(Human.ago(milliseconds: Int(time.components.seconds) * 1000))"
    }

    /// Explains systemd's `Result` property.
    private static func reason(_ unit: UnitFacts) -> String {
        switch unit.result {
        case "exit-code" where unit.exitStatus == 78: "its settings are invalid"
        case "exit-code" where (200...243).contains(unit.exitStatus):
            "systemd could not set up its process (exit status \(unit.exitStatus), see systemd.exec(5))"
        case "exit-code": "it exited with status \(unit.exitStatus)"
        case "watchdog": "it was killed because it did not notify the watchdog in time"
        case "signal", "core-dump": "it was killed by signal \(unit.exitStatus)"
        case "oom-kill": "it was killed because memory ran out"
        case "start-limit-hit": "it failed too often in a short time, so systemd does not restart it"
        case "timeout": "it did not start or stop in time"
        case "resources": "the system lacked the resources to start it"
        default: unit.result
        }
    }

    private static func remedies(
        _ unit: UnitFacts, _ units: ServiceFacts.Units, _ settings: SettingsFacts?
    ) -> [String] {
        switch unit.result {
        case "exit-code" where unit.exitStatus == 78 && settings?.preventsStart != true:
            [
                settings?.state == .right
                    ? "the settings are valid now, so restart it" : "correct the settings (see below)"
            ]
        case "start-limit-hit": [units.systemctl("reset-failed larder.service larder.socket")]
        case "oom-kill": ["check MemoryMax= of the unit, and find what uses the memory: systemd-cgtop -m"]
        default: []
        }
    }

    private static func times(_ count: Int) -> String { count == 1 ? "once" : "\(count) times" }

    private static func quoted(_ log: [String]) -> [String] {
        log.isEmpty ? [] : ["last lines of its log:"] + log.map { "  \($0)" }
    }
}

/// The advice to start or restart an agent that does not reply.
struct StartAdvice: Sendable, Equatable {
    let start: [String]
    let restart: [String]

    /// Creates the advice.
    /// - Parameters:
    ///   - settings: the settings file; nil if it is unknown.
    ///   - serviceFindings: the findings about the service. Their advice starts the service if it has a problem.
    init(_ service: ServiceFacts, _ socket: SocketFacts, settings: SettingsFacts?, serviceFindings: [Finding]) {
        if serviceFindings.contains(where: { $0.level == .problem }) {
            start = ["correct the service first (see above)"]
            restart = start
        } else {
            start = Self.precondition(settings) + service.startCommands(socket)
            restart = Self.precondition(settings) + service.restartCommands
        }
    }

    /// The advice that precedes the commands that start the agent; empty if the settings permit a start.
    static func precondition(_ settings: SettingsFacts?) -> [String] {
        settings?.preventsStart == true ? ["correct the settings first (see above), then:"] : []
    }
}
