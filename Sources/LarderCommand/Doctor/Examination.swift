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

    /// The findings of all checks. Problems that explain others come first.
    var report: DoctorReport {
        let settingsFindings = SettingsCheck.findings(
            settings, agent.facts, service, socket.hintsForRoot, problem: agent.settingsProblem)
        let serviceFindings = ServiceCheck.findings(
            service, agent: agent.facts, settings: settings, log: log)
        let advice = StartAdvice(service, socket, settings: settings, serviceFindings: serviceFindings)
        var socketFindings = SocketCheck.findings(socket, advice)
        let isSocketUsable = !socketFindings.contains { $0.level == .problem }
        if case .failed(let failure) = agent, [.denied, .noSocket].contains(failure.kind) {
            // The failed connection shows more than the permissions of the socket.
            socketFindings.removeAll { $0.level == .ok }
        }
        var findings = socketFindings + serviceFindings
        findings += ConnectionCheck.findings(
            agent, socket, service, advice, isSocketUsable: isSocketUsable, log: log)
        if let facts = agent.facts {
            findings += VersionCheck.findings(facts, service)
            findings += RightsCheck.findings(facts)
            findings += ThreadCheck.findings(facts.info, service)
            findings += AgentProblemCheck.findings(facts.info, service.reloadCommands(of: facts))
        }
        findings += settingsFindings
        findings += ClockCheck.findings(clock, agent.facts, service)
        findings += DiskCheck.findings(volumes, agent.facts)
        if let facts = agent.facts {
            findings += UpstreamCheck.findings(facts, socket.hints)
            findings += SchemaCheck.findings(facts, socket.hints, settings: settings)
            findings += ImageCheck.findings(facts, service, socket.hints)
            findings += DescriptorCheck.findings(facts, openFiles: openFiles, service, socket.hints)
        }
        let explanations = causes.flatMap { check in findings.filter { $0.check == check && $0.level == .problem } }
        findings.removeAll { explanations.contains($0) }
        return DoctorReport(findings: explanations + findings, isReachable: agent.facts != nil)
    }

    /// The checks whose problems explain those of other checks, in the order in which they are solved.
    private var causes: [String] {
        // If the path of the socket is a file of another type, the problem of the service is a result of that.
        if case .other = socket.file { return [SettingsCheck.name, DiskCheck.name] }
        return [SettingsCheck.name, DiskCheck.name, ServiceCheck.name]
    }
}
