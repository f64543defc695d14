/// Everything that was found out, and what the checks make of it.
struct Examination: Sendable {
    var socket: SocketFacts
    var service: ServiceFacts
    var agent: AgentAnswer
    /// nil where it is not known which file the agent would take.
    var settings: SettingsFacts?
    var clock: ClockFacts
    var volumes: [VolumeFacts]
    /// How many files the agent may have open; nil where that cannot be seen.
    var openFiles: Int?
    /// The last lines of the agent's log, where they matter and can be read.
    var log: [String]

    /// What there is to say, in the order in which to look at it: what comes first often explains the rest.
    var report: DoctorReport {
        var findings = SocketCheck.findings(socket, service)
        findings += ServiceCheck.findings(service, agent: agent.facts, log: log)
        findings += ConnectionCheck.findings(agent, socket, service, log: log)
        if let facts = agent.facts {
            findings += VersionCheck.findings(facts, service)
            findings += RightsCheck.findings(facts)
        }
        findings += SettingsCheck.findings(settings, agent.facts, service, socket.hintsForRoot)
        findings += ClockCheck.findings(clock, agent.facts, service)
        findings += DiskCheck.findings(volumes)
        if let facts = agent.facts {
            findings += UpstreamCheck.findings(facts, socket.hints)
            findings += ImageCheck.findings(facts, socket.hints)
            findings += DescriptorCheck.findings(facts, openFiles: openFiles, service, socket.hints)
        }
        return DoctorReport(findings: findings, isReachable: agent.facts != nil)
    }
}
