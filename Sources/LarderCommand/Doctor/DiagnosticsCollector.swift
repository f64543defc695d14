import ArgumentParser
import CLinuxShims
import LarderClientCore
import LarderProtocol

/// `larder doctor`
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Find problems of the agent, and show how to correct them.",
        discussion: """
            Checks the socket and its permissions, the service, the connection, the versions, your rights, the \
            settings, the clock, the disk, the sources of each namespace, the image cache, and the limits for clients. \
            If the agent does not run, doctor shows why. It changes nothing, but its connection starts an agent that \
            uses socket activation. Each line begins with ✓ (works), ! (works, but needs attention), ✗ (does not work) \
            or · (not checked), or with [ok], [warning], [problem] or [skipped] if the output cannot show these \
            symbols. An arrow marks what to do next. Some checks need root.

            The exit status is 0 without problems and warnings, 12 with warnings only, 1 if something does not work, \
            and 5 if the agent is unreachable. larder status --check checks only the namespaces, \
            the disk, the image cache and whether the service had to be restarted.

            EXAMPLES:
              larder doctor
              sudo larder doctor                 checks the settings and shows the log, too
              larder doctor --settings new.json  checks another settings file
              larder doctor --json | jq -r '.findings[] | select(.level == "problem") | .title'
            """)

    @Option(
        help: ArgumentHelp(
            "The settings file to check.",
            discussion: "Default: the file that the agent uses, else the default file.", valueName: "file"),
        completion: .file())
    var settings: String?

    @Option(help: .agentSocket, completion: .file())
    var socket: String?

    @Option(
        help: ArgumentHelp(
            "The longest time to wait for each reply of the agent, such as 500ms, 10s or 2m. Default: 5s.",
            valueName: "time"),
        transform: TimeSpan.parse)
    var timeout = TimeSpan(.seconds(5))

    @Flag(help: "Print the findings as one line of JSON.")
    var json = false

    func run() async throws {
        let report = await DiagnosticsCollector.examine(socket: socket, settings: settings, timeout: timeout.duration)
            .report
        try Output.line(
            json ? report.json : report.text(style: .standardOutput, hasSymbols: DoctorReport.hasSymbols))
        report.status.endThisProcess()
    }
}

/// Collects the facts of an ``Examination`` from this host and its agent.
enum DiagnosticsCollector {
    /// Collects the facts.
    /// - Parameters:
    ///   - socket: the value of `--socket`
    ///   - settings: the value of `--settings`
    ///   - timeout: the timeout of each request to the agent
    static func examine(socket option: String?, settings: String?, timeout: Duration) async -> Examination {
        let socket = SocketFacts(option: option)
        // Query the service before the first connection, which would start a service with socket activation.
        var service = await ServiceFacts.probe(for: socket)
        let agent = await AgentProbe.answer(socket: socket.path, timeout: timeout)
        let facts = agent.facts
        // If the agent does not reply, query the service again: the request may have started the service, whose state
        // then explains the failure.
        if facts == nil { service = await ServiceFacts.probe(for: socket) }
        let needsLog = facts == nil || service.hasFailed
        return Examination(
            socket: socket, service: service, agent: agent,
            settings: await SettingsFacts.probe(
                option: settings, agent: facts?.info, agentUser: AgentUser.probe(pid: facts?.info.pid, service),
                choice: socket.choice),
            isClockSynchronized: isClockSynchronized, volumes: volumes(facts, isSystem: socket.choice == .system),
            openFiles: facts.flatMap { openFiles(ofProcess: $0.info.pid) },
            log: needsLog ? await service.log(lines: 5) : [])
    }

    /// Returns the file systems of the directories that the agent reports. If the agent does not reply, returns the
    /// file systems of the system-wide agent's directories that exist, because a full disk may be why it does not
    /// reply.
    private static func volumes(_ facts: AgentFacts?, isSystem: Bool) -> [VolumeFacts] {
        if let facts { return VolumeFacts.all(of: facts.info) }
        guard isSystem else { return [] }
        return [
            VolumeFacts.probe(at: "/var/lib/larder", purpose: "state"),
            VolumeFacts.probe(at: "/var/cache/larder", purpose: "images"),
        ].filter { $0.state != .missing }
    }

    /// Reads the state of the clock from the kernel (adjtimex(2)); nil if the kernel does not report it.
    private static var isClockSynchronized: Bool? {
        let answer = larder_clock_is_synchronized()
        return answer < 0 ? nil : answer == 1
    }

    /// The maximum number of open files of a process (`/proc/PID/limits`, proc(5)); nil if it cannot be read.
    private static func openFiles(ofProcess pid: Int) -> Int? {
        guard let bytes = try? Input.contents(of: "/proc/\(pid)/limits") else { return nil }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        let fields = lines.first { $0.hasPrefix("Max open files") }?.split(separator: " ")
        return fields.flatMap { $0.count > 3 ? Int($0[3]) : nil }
    }
}

/// All facts that `larder doctor` collected, and the report about them.
struct Examination: Sendable {
    var socket: SocketFacts
    var service: ServiceFacts
    var agent: AgentReply
    /// The settings file; nil if it is not known which file the agent would use.
    var settings: SettingsFacts?
    /// Whether the clock is synchronized; nil if the kernel does not report it.
    var isClockSynchronized: Bool?
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
        let access = SocketCheck.finding(socket, advice)
        var findings = [access] + serviceFindings
        if case .failed(let failure) = agent, [.denied, .noSocket].contains(failure.kind), access.level == .ok {
            // The failed connection shows more than the permissions of the socket.
            findings = serviceFindings
        }
        findings.append(
            ConnectionCheck.finding(
                agent, socket, service, advice, isSocketUsable: access.level != .problem, log: log))
        if let facts = agent.facts {
            findings += [VersionCheck.finding(facts, service), RightsCheck.finding(facts)]
            findings += ThreadCheck.findings(facts.info, service)
            findings += AgentProblemCheck.findings(facts.info, service.reloadCommands(of: facts))
        }
        findings += settingsFindings
        findings += ProxyCheck.findings(settings)
        findings += ClockCheck.findings(isClockSynchronized, agent.facts, service)
        findings += DiskCheck.findings(volumes, agent.facts, socket.hints)
        if let facts = agent.facts {
            findings += UpstreamCheck.findings(facts, socket.hints)
            findings += SchemaCheck.findings(facts, socket.hints, settings: settings)
            let images = ImageCheck.finding(facts, service, socket.hints)
            if images.level != .ok || !facts.info.lacksImageSpace { findings.append(images) }
            findings += ImageCheck.expiry(of: (try? facts.stats.get())?.images, facts.now)
            findings.append(DescriptorCheck.finding(facts, openFiles: openFiles, service, socket.hints))
        }
        let explanations = causes.flatMap { check in findings.filter { $0.check == check && $0.level == .problem } }
        findings.removeAll { explanations.contains($0) }
        return DoctorReport(findings: explanations + findings, isReachable: agent.facts != nil)
    }

    /// The checks whose problems explain those of other checks, in the order in which they are solved.
    private var causes: [String] {
        // If the path of the socket is a file of another type, the problem of the service is a result of that.
        if case .other = socket.file { return [DiskCheck.name, SettingsCheck.name] }
        return [DiskCheck.name, SettingsCheck.name, ServiceCheck.name]
    }
}
