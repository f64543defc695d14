import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderProtocol

/// `larder status`
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the state of each namespace, and why.",
        discussion: """
            The states are: initializing (the remote source has not responded yet), fresh, refreshing (a poll is in \
            progress, or the first one after a start is due), stale (the last poll failed; the last good snapshot is \
            still served), and failed (the last poll failed, and either there has never been a usable response, or the \
            source last confirmed the snapshot longer ago than staleIfErrorSeconds in the settings; the snapshot is \
            still served).

            With --check, the exit status is 0 without problems and warnings, 12 if something works but needs \
            attention, such as a stale namespace, a rejected document, a rollback, a certificate that expires within 14 \
            days or a disk with less than 5 % of free space, 1 if something does not work, and 5 if the agent is \
            unreachable. Without the right monitor and without -n, it is at least 12, because there may be namespaces \
            that you may not see. larder doctor uses the same statuses and checks more.

            EXAMPLES:
              larder status
              larder status --check >/dev/null || larder doctor
              larder status -n billing
              larder status --json | jq -r '.namespaces[] | select(.state != "fresh") | .namespace'
            """)

    @Option(
        name: .shortAndLong, help: ArgumentHelp("Show only this namespace.", valueName: "name"), completion: .namespace)
    var namespace: String?

    @Flag(help: "Set the exit status: 0 without problems and warnings, 12 with warnings only, 1 with problems.")
    var check = false

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        var status = ExitStatus.success
        try await agent.connection.withClient { client in
            let parameters = JSONValue.building { ConfigStatus.Parameters(namespace: namespace).write(to: &$0) }
            let result = try await client.call(ConfigStatus.name, params: parameters)
            let info = agent.json && !check ? nil : try? await client.call(AgentInfo.self, NoParameters())
            if agent.json { try Output.line(result.compactText) }
            if agent.json, !check { return }
            let namespaces = try readable { () throws(WireError) in try ConfigStatus.Result(from: result).namespaces }
            if check {
                let isPartial = namespace == nil && info.map(StatusCheck.mayMissNamespaces) ?? false
                status = StatusCheck.status(
                    namespaces, info, info.map(VolumeFacts.all) ?? [], isPartial: isPartial)
                if isPartial { Output.note(StatusCheck.partial) }
            }
            if agent.json { return }
            let report = StatusReport(style: .standardOutput, now: .now, hints: agent.connection.hints)
            try Output.line(report.text(namespaces))
            if let problem = info?.threadProblem {
                try Output.line("\nthreads  \(Style.standardOutput.problem(problem.printable))")
            }
            if let info, let problem = info.settingsProblem {
                let text = "rejected, so the agent runs with earlier ones: \(problem.printable)"
                try Output.line("\nsettings  \(Style.standardOutput.problem(text))")
                try Output.line("          those in effect were read \(info.settingsReadAt.ago(at: .now))")
            }
            for line in info.map(StatusReport.problems) ?? [] {
                try Output.line("\nproblem  \(Style.standardOutput.problem(line.printable))")
            }
            if let imageProblem = info?.imageProblem {
                return try Output.line("\nimages  none: \(imageProblem.printable)")
            }
            if let images = try? await client.call(AgentStats.self, NoParameters()).images {
                try Output.line("\nimages  \(ImageStatsReport.diskUse(images))")
            }
        }
        if status != .success { status.endThisProcess() }
    }
}

/// Computes the exit status of `larder status --check`. It uses the checks of `larder doctor`.
enum StatusCheck {
    /// The note if there may be namespaces that the user may not see.
    static let partial =
        "this speaks only for the namespaces that this user may see; run it as root, grant the right \"monitor\" with "
        + "\"access\" in the settings, or name a namespace with -n"

    /// Whether there may be namespaces that the user may not see. Neither the agent nor this check tells whether there are.
    static func mayMissNamespaces(_ info: AgentInfo.Result) -> Bool { !info.rights.contains(.monitor) }

    /// - Parameters:
    ///   - info: the agent's data about itself; nil if unknown
    ///   - volumes: the file systems of the directories of the agent; one that this process cannot see is skipped
    ///   - isPartial: whether there may be namespaces that are not in `namespaces`, although all were requested
    static func status(
        _ namespaces: [ConfigStatus.Namespace], _ info: AgentInfo.Result?, _ volumes: [VolumeFacts] = [],
        isPartial: Bool = false
    ) -> ExitStatus {
        var findings = namespaces.flatMap {
            UpstreamCheck.findings($0, .now, Hints()) + SchemaCheck.findings($0, Hints()) + DiskCheck.findings($0)
        }
        if let info { findings += ThreadCheck.findings(info, .absent) + AgentProblemCheck.findings(info) }
        if let problem = info?.settingsProblem { findings.append(SettingsCheck.rejected(problem)) }
        // This process may run in another container than the agent, so a directory may be missing only here.
        findings += volumes.filter { $0.state != .missing }.map(DiskCheck.finding)
        if let imageProblem = info?.imageProblem { findings.append(ImageCheck.unusable(imageProblem)) }
        if isPartial { findings.append(Finding(.warning, RightsCheck.name, partial)) }
        return DoctorReport(findings: findings, isReachable: true).status
    }
}

extension ConfigStatus.Namespace {
    /// The time for which the namespace has been in its state, in milliseconds. If the namespace is failed, the time for
    /// which it was stale before counts, too: it begins with the last successful poll.
    func duration(at now: Timestamp) -> Int {
        guard state == .failed, let upstream, upstream.consecutiveFailures > 0, let success = upstream.lastSuccessAt
        else { return now.milliseconds - since.milliseconds }
        return now.milliseconds - min(success.milliseconds, since.milliseconds)
    }
}

/// The output of `larder status` for people: one paragraph per namespace, the state first, then its explanation.
struct StatusReport {
    let style: Style
    /// The time that ages are relative to.
    let now: Timestamp
    /// Creates the commands that the report suggests.
    var hints = Hints()

    /// The report without a final line end.
    func text(_ namespaces: [ConfigStatus.Namespace]) -> String {
        namespaces.map { paragraph($0).joined(separator: "\n") }.joined(separator: "\n\n")
    }

    /// The problems that the agent lists, each in one line: its effect and its cause.
    static func problems(_ info: AgentInfo.Result) -> [String] {
        AgentProblemCheck.findings(info).map { ([$0.title] + $0.detail).joined(separator: ": ") }
    }

    private func violation(_ error: SchemaError) -> String { style.problem(error.text.printable) }

    private func paragraph(_ namespace: ConfigStatus.Namespace) -> [String] {
        var lines = [
            "\(style.strong(namespace.namespace.printable))  \(style.state(namespace.state)) "
                + "for \(Human.span(milliseconds: namespace.duration(at: now)))"
        ]
        lines += rows("snapshot", snapshot(namespace))
        if let age = namespace.ageMilliseconds {
            lines += rows("confirmed", ["by its source \(Human.ago(milliseconds: age))"])
        }
        if let error = namespace.lastError {
            lines += rows(
                "last error",
                [style.problem("\(error.name): \(error.message)".printable), error.at.ago(at: now)])
        }
        if let error = namespace.writeError, error.message != namespace.lastError?.message {
            lines += rows("disk", [style.problem("\(error.name): \(error.message)".printable), error.at.ago(at: now)])
        }
        if let rejected = namespace.rejected {
            let version = rejected.version.map { "version \($0.printable)" } ?? "a document"
            lines += rows(
                "rejected", [style.problem("\(version): \(rejected.reason.printable)"), rejected.at.ago(at: now)])
        }
        if let quarantine = namespace.quarantine {
            let version = quarantine.version.map { "version \($0)" } ?? "a document"
            let what = "\(version) would remove \(quarantine.removed) of \(quarantine.members) members"
            let accept = UpstreamCheck.acceptance(in: namespace, hints)
            lines += rows(
                "quarantine", [style.problem(what.printable), quarantine.at.ago(at: now), "accept it with: \(accept)"])
        }
        if let schema = namespace.schema {
            if let problem = schema.problem {
                lines += rows("schema", [style.problem(problem.printable), schema.effectOfProblem])
            }
            if !schema.errors.isEmpty {
                let inForce = schema.problem == nil ? schema.path.printable : "the schema in force"
                lines += rows("schema", ["the snapshot violates \(inForce)"] + schema.errors.map(violation))
            }
        }
        if let rejection = namespace.schemaRejection {
            let what = rejection.layer.map { "content of layer \($0)" } ?? "locks or experiments of the settings"
            let version = rejection.version.map { ", version \($0)" } ?? ""
            lines += rows(
                "rejected",
                ["\(what)\(version), by the schema".printable, rejection.at.ago(at: now)]
                    + rejection.errors.map(violation))
        }
        if let hold = namespace.hold {
            let rejected = hold.rejectedVersion.map { ", version \($0) is held back" } ?? ""
            lines += rows(
                "rolled back",
                ["to revision \(hold.revision)\(rejected)".printable] + holding(hold) + [
                    "end it with: \(hints.command("larder rollback --release", namespace: namespace.namespace))"
                ])
        }
        if let upstream = namespace.upstream { lines += rows("source", source(upstream)) }
        lines += layers(namespace)
        if let copy = namespace.copy {
            lines += rows("copy", [copy.path.printable] + (copy.problem.map { [style.problem($0.printable)] } ?? []))
        }
        lines += acknowledgements(namespace.acknowledgements)
        return lines
    }

    /// The rows about a rollback: its author and time, the layers whose new content is held back, and when the hold
    /// ends.
    private func holding(_ hold: ConfigStatus.Hold) -> [String] {
        let by = hold.peer.map { "by \(Provenance.process($0.command, pid: $0.pid, uid: $0.uid)), " } ?? ""
        var lines = [by + hold.since.ago(at: now)]
        if !hold.layers.isEmpty { lines.append("layers held back: \(hold.layers.joined(separator: ", "))".printable) }
        if let rule = hold.rule {
            let ending = rule == ConfigRollback.Hold.untilNewer.rawValue ? "a newer document arrives" : "released"
            lines.append("until \(ending)\(hold.reason.map { ", because \($0)" } ?? "")".printable)
        }
        return lines
    }

    /// The rows about acknowledgements: how many clients use each revision, and which clients rejected one.
    private func acknowledgements(_ reports: ConfigStatus.Acknowledgements) -> [String] {
        let accepted = reports.accepted.sorted { $0.key > $1.key }.map { revision, count in
            "revision \(revision) by \(Human.count(count, "client", "clients"))"
        }
        let rejected = reports.rejected.map { rejection in
            let peer = Provenance.process(rejection.peer.command, pid: rejection.peer.pid, uid: rejection.peer.uid)
            let reason = rejection.reason.map { ": \($0.printable)" } ?? ""
            return style.problem("revision \(rejection.revision) rejected by \(peer)\(reason)")
                + ", \(rejection.at.ago(at: now))"
        }
        let more = reports.rejections - reports.rejected.count
        let rest = more > 0 ? [style.problem("rejected by \(Human.count(more, "more client", "more clients"))")] : []
        return rows("in use", accepted + rejected + rest)
    }

    private func snapshot(_ namespace: ConfigStatus.Namespace) -> [String] {
        guard namespace.revision > 0, let publishedAt = namespace.publishedAt, let digest = namespace.digest else {
            return ["none published yet"]
        }
        return [
            "revision \(namespace.revision), \(Human.bytes(namespace.bytes)), published \(publishedAt.ago(at: now))",
            "epoch \(namespace.epoch.printable), \(digest.prefix(19).description.printable)…, "
                + "durability \(namespace.durability.printable)",
        ]
    }

    private func source(_ upstream: ConfigStatus.Upstream) -> [String] {
        var lines = ["\(upstream.kind) \(upstream.location)".printable]
        let held = [
            upstream.version.map { "version \($0)" }, upstream.etag.map { "etag \($0)" },
        ].compactMap(\.self)
        if !held.isEmpty { lines.append("current \(held.joined(separator: ", "))".printable) }
        // The times of polls are not kept across restarts of the agent, so a version may be known without the time of a
        // success. An error or a rejected document is not a success.
        let none = held.isEmpty ? "no success yet" : "no success since the agent started"
        lines.append(upstream.lastSuccessAt.map { "last success \($0.ago(at: now))" } ?? none)
        if upstream.consecutiveFailures > 0 {
            let failures = Human.count(upstream.consecutiveFailures, "failure", "failures")
            let last = upstream.lastAttemptAt.map { ", the last \($0.ago(at: now))" } ?? ""
            lines.append(style.problem("\(failures) since\(last)"))
        }
        if let expiry = UpstreamCheck.expiry(of: upstream, now) { lines.append(style.problem(expiry)) }
        if let next = upstream.nextAttemptAt {
            lines.append("next attempt \(Human.ahead(milliseconds: next.milliseconds - now.milliseconds))")
        }
        return lines
    }

    private func layers(_ namespace: ConfigStatus.Namespace) -> [String] {
        // A layer without an origin is not configured. It is shown only if it has a problem, such as invalid
        // experiments.
        let layers = namespace.layers.filter { $0.present || !$0.origin.isEmpty || $0.problem != nil }
        let width = layers.map(\.name.count).max() ?? 0
        var lines: [String] = []
        for layer in layers {
            var text = layer.name.printable.padded(to: width) + "  "
            text += layer.present ? Human.bytes(layer.bytes).rightAligned(to: 7) : "  empty"
            text += "  \(layer.origin.printable)"
            if layer.present, let updated = layer.updatedAt { text += ", changed \(updated.ago(at: now))" }
            lines.append(text)
            if let problem = layer.problem, problem != namespace.lastError?.message {
                lines.append(style.problem("  \(problem.printable)"))
            }
        }
        return rows("layers", lines)
    }

    /// Rows that share a label, which only the first row shows.
    private func rows(_ label: String, _ lines: [String]) -> [String] {
        lines.enumerated().map { index, line in
            "  \((index == 0 ? label : "").padded(to: 12))\(line)"
        }
    }
}

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
            the disk and the image cache.

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
