/// All facts that `larder doctor` collected, and the report about them.
struct Examination: Sendable {
    var socket: SocketFacts
    var service: ServiceFacts
    var agent: AgentReply
    /// The settings file; nil if it is not known which file the agent would use.
    var settings: SettingsFacts?
    var clock: ClockFacts
    var volumes: [VolumeFacts]
    /// The maximum number of files that the agent may open; nil if it cannot be read.
    var openFiles: Int?
    /// The last log lines of the agent; empty if they are not needed or cannot be read.
    var log: [String]

    /// The findings of all checks, ordered so that earlier ones often explain later ones.
    var report: DoctorReport {
        let settingsFindings = SettingsCheck.findings(
            settings, agent.facts, service, socket.hintsForRoot, problem: agent.settingsProblem)
        var findings = agent.settingsProblem == nil ? [] : settingsFindings
        findings += SocketCheck.findings(socket, service)
        findings += ServiceCheck.findings(service, agent: agent.facts, log: log)
        findings += ConnectionCheck.findings(agent, socket, service, log: log)
        if let facts = agent.facts {
            findings += VersionCheck.findings(facts, service)
            findings += RightsCheck.findings(facts)
            findings += ThreadCheck.findings(facts.info, service)
        }
        if agent.settingsProblem == nil { findings += settingsFindings }
        findings += ClockCheck.findings(clock, agent.facts, service)
        findings += DiskCheck.findings(volumes)
        if let facts = agent.facts {
            findings += DiskCheck.findings(facts)
            findings += UpstreamCheck.findings(facts, socket.hints)
            findings += SchemaCheck.findings(facts, socket.hints)
            findings += ImageCheck.findings(facts, socket.hints)
            findings += DescriptorCheck.findings(facts, openFiles: openFiles, service, socket.hints)
        }
        return DoctorReport(findings: findings, isReachable: agent.facts != nil)
    }
}
