import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderProtocol

/// `larder status`
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the state of each namespace, and why.",
        discussion: """
            Prints one line for each namespace; REASON is what needs attention, shortened to the width of the \
            terminal. With --long or --namespace, prints all details: layers, source, errors, rollbacks, and the \
            clients that use or reject a revision. Times are in the local time zone. Problems of the agent itself, \
            such as settings that it has rejected, come first.

            The states are: initializing (the remote source has not responded yet), fresh, refreshing (a poll is in \
            progress, or the first one after a start is due), stale (the last poll failed; the last good snapshot is \
            still served), and failed (the last poll failed, and either there has never been a usable response, or the \
            source last confirmed the snapshot longer ago than staleIfErrorSeconds in the settings; the snapshot is \
            still served).

            With --check, the first line is the worst finding, and the exit status is 0 without problems and \
            warnings, 12 if something works but needs attention, such as a stale namespace, a rejected document, a \
            rollback, a certificate that expires within 14 days or a disk with less than 5 % of free space, 1 if \
            something does not work, and 5 if the agent is unreachable. Without the right monitor and without -n, it is \
            at least 12, because there may be namespaces that you may not see. larder doctor uses the same statuses and \
            checks more. With --json, the member check of the output has this line as headline, and all findings as larder \
            doctor --json prints them.

            EXAMPLES:
              larder status
              larder status --check >/dev/null || larder doctor
              larder status -n billing           all details of a namespace
              larder status --long               all details of all namespaces
              larder status --json | jq -r '.namespaces[] | select(.state != "fresh") | .namespace'
            """)

    @Option(
        name: .shortAndLong, help: ArgumentHelp("Show only this namespace, with all details.", valueName: "name"),
        completion: .namespace)
    var namespace: String?

    @Flag(help: "Show all details.")
    var long = false

    @Flag(help: "Set the exit status: 0 without problems and warnings, 12 with warnings only, 1 with problems.")
    var check = false

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        var status = ExitStatus.success
        try await agent.connection.withClient { client in
            let parameters = JSONValue.building { ConfigStatus.Parameters(namespace: namespace).write(to: &$0) }
            let result = try await client.call(ConfigStatus.name, params: parameters)
            let info = agent.json && !check ? nil : try? await client.call(AgentInfo.self, NoParameters())
            let images = agent.json && !check ? nil : try? await client.call(AgentStats.self, NoParameters()).images
            if agent.json, !check { return try Output.line(result.compactText) }
            let namespaces = try readable { () throws(WireError) in try ConfigStatus.Result(from: result).namespaces }
            let volumes = info.map(VolumeFacts.all) ?? []
            if check {
                let isPartial = namespace == nil && info.map(StatusCheck.mayMissNamespaces) ?? false
                let service = await ServiceFacts.probe(for: SocketFacts(option: agent.connection.socket))
                let found = StatusCheck.report(
                    namespaces, info, volumes, images: images, service: service, isPartial: isPartial)
                status = found.status
                if agent.json {
                    try Output.line(MergePatch.apply(["check": found.checkJSON], to: result).compactText)
                } else {
                    try Output.line(found.headline + "\n")
                }
                let isShown = !agent.json && Output.isTerminal
                if isPartial, !isShown || !StatusCheck.saysPartial(found) { Output.note(StatusCheck.partial) }
            }
            if agent.json { return }
            let report = StatusReport(style: .standardOutput, now: .now, hints: agent.connection.hints)
            for line in info.map(report.problems) ?? [] { try Output.line(line + "\n") }
            // This process may run in another container than the agent, so a directory may be missing only here.
            let present = volumes.filter { $0.state != .missing }
            if let advice = DiskCheck.advice(present, agent.connection.hints) {
                try Output.line("disk  \(Style.standardOutput.problem(advice.printable))\n")
            }
            let width = Output.isTerminal ? Output.terminalSize().columns : nil
            try Output.line(
                long || namespace != nil ? report.text(namespaces) : report.table(namespaces, width: width))
            if let imageProblem = info?.imageProblem {
                return try Output.line("\nimages  none: \(imageProblem.printable)")
            }
            if let images {
                try Output.line("\nimages  \(ImageStatsReport.diskUse(images))")
                for warning in ImageCheck.expiry(of: images, .now) {
                    try Output.line("        \(Style.standardOutput.problem(warning.title))")
                }
            }
        }
        if status != .success { status.endThisProcess() }
    }
}

/// Computes the findings of `larder status --check`. It uses the checks of `larder doctor`.
enum StatusCheck {
    /// The note if there may be namespaces that the user may not see.
    static let partial =
        "this speaks only for the namespaces that this user may see; run it as root, grant the right \"monitor\" with "
        + "\"access\" in the settings, or name a namespace with -n"

    /// Whether the first line of a report already contains ``partial``.
    static func saysPartial(_ report: DoctorReport) -> Bool { report.headline.contains(partial.printable) }

    /// Whether there may be namespaces that the user may not see. Neither the agent nor this check tells whether there are.
    static func mayMissNamespaces(_ info: AgentInfo.Result) -> Bool { !info.rights.contains(.monitor) }

    /// - Parameters:
    ///   - info: the agent's data about itself; nil if unknown
    ///   - volumes: the file systems of the directories of the agent; one that this process cannot see is skipped
    ///   - images: the figures of the image cache; nil if unknown
    ///   - service: the units of the agent
    ///   - isPartial: whether there may be namespaces that are not in `namespaces`, although all were requested
    /// - Returns: the findings, causes first
    static func report(
        _ namespaces: [ConfigStatus.Namespace], _ info: AgentInfo.Result?, _ volumes: [VolumeFacts] = [],
        images: AgentStats.Images? = nil, service: ServiceFacts = .absent, isPartial: Bool = false
    ) -> DoctorReport {
        var findings: [Finding] = []
        if let info { findings += ThreadCheck.findings(info, .absent) }
        if let problem = info?.settingsProblem { findings.append(SettingsCheck.rejected(problem)) }
        // This process may run in another container than the agent, so a directory may be missing only here.
        findings += volumes.filter { $0.state != .missing }.map { DiskCheck.finding($0) }
        findings += namespaces.flatMap { DiskCheck.findings($0) } + volumes.flatMap { DiskCheck.damage($0) }
        if let info { findings += AgentProblemCheck.findings(info) }
        findings += namespaces.flatMap {
            UpstreamCheck.findings($0, .now, Hints()) + SchemaCheck.findings($0, Hints())
        }
        if let imageProblem = info?.imageProblem { findings.append(ImageCheck.unusable(imageProblem)) }
        findings += ImageCheck.expiry(of: images, .now)
        if let restarts = ServiceCheck.restarts(service) { findings.append(restarts) }
        if isPartial { findings.append(Finding(.warning, RightsCheck.name, partial)) }
        return DoctorReport(findings: findings, isReachable: true)
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

    /// Whether a rollback holds back the document of the source, so that an earlier one is served.
    var holdsSource: Bool { hold?.layers.contains("remote") ?? false }

    /// The last error, unless it is the rejection of the document that ``rejected`` or ``schemaRejection`` describes.
    var otherError: ConfigStatus.Problem? {
        guard let error = lastError else { return nil }
        let isRejection =
            error.message == rejected?.reason
            || error.name == WireError.Code.schemaViolation.name && schemaRejection?.layer == "remote"
        return isRejection ? nil : error
    }

    /// The last rejected document, unless it is the one that ``quarantine`` describes.
    var otherRejection: ConfigStatus.Rejection? {
        guard let quarantine, quarantine.at == rejected?.at else { return rejected }
        return nil
    }
}

/// The output of `larder status` for people: a table, or one paragraph per namespace with all details.
struct StatusReport {
    let style: Style
    /// The time that ages are relative to.
    let now: Timestamp
    /// Creates the commands that the report suggests.
    var hints = Hints()

    private static let table = TextTable(
        headings: ["NAMESPACE", "STATE", "SINCE", "FOR", "REVISION", "VERSION", "SOURCE", "REASON"], figures: [4])

    /// The number of characters after which a version in the table is truncated.
    private static let versionWidth = 20

    /// All details, without a final line end: the state of each namespace first, then its explanation.
    func text(_ namespaces: [ConfigStatus.Namespace]) -> String {
        namespaces.map { paragraph($0).joined(separator: "\n") }.joined(separator: "\n\n")
    }

    /// One line per namespace, without a final line end.
    /// - Parameter width: the width to which the reasons are shortened; nil for whole reasons
    func table(_ namespaces: [ConfigStatus.Namespace], width: Int? = nil) -> String {
        let (whole, short) = (Self.table.text(namespaces.map(row)), Self.table.text(namespaces.map(row), width: width))
        return short == whole ? whole : "\(short)\n\nwhole reasons: \(hints.command("larder status --long"))"
    }

    private func row(_ namespace: ConfigStatus.Namespace) -> [String] {
        let duration = namespace.duration(at: now)
        let upstream = namespace.upstream
        let reasons = reasons(namespace).map(\.printable)
        var reason = reasons.first.map(style.problem) ?? ""
        if reasons.count > 1 {
            let details = hints.command("larder status --long", namespace: namespace.namespace)
            reason += "; \(reasons.count - 1) more: \(details)"
        }
        // The version is that of the source. A rollback serves an earlier document instead.
        let version = namespace.holdsSource ? "held back" : upstream?.version?.printable ?? "-"
        return [
            style.strong(namespace.namespace.printable), style.state(namespace.state),
            Timestamp(milliseconds: now.milliseconds - duration).local, Human.span(milliseconds: duration),
            namespace.revision > 0 ? "\(namespace.revision)" : "-",
            version.count > Self.versionWidth ? version.prefix(Self.versionWidth - 1) + "…" : version,
            upstream.map { "\($0.kind) \($0.location)".printable } ?? "-", reason,
        ]
    }

    /// The problems of a namespace, each in one line, the most important first.
    private func reasons(_ namespace: ConfigStatus.Namespace) -> [String] {
        var reasons: [String] = []
        // A full disk and an expired certificate are causes of other errors.
        if let error = namespace.writeError { reasons.append(error.message) }
        let expiry = namespace.upstream.flatMap { UpstreamCheck.expiry(of: $0, now) }
        let hasExpired = namespace.upstream.map { UpstreamCheck.hasExpired($0, now) } ?? false
        if hasExpired { reasons += [expiry].compactMap(\.self) }
        if let error = namespace.otherError, error.message != namespace.writeError?.message {
            reasons.append(error.message)
        }
        if let quarantine = namespace.quarantine { reasons.append(text(quarantine)) }
        if let rejected = namespace.otherRejection {
            let text = text(rejected)
            reasons.append(text.isSpelled(as: rejected.reason) ? "rejected: \(text)" : "rejected \(text)")
        }
        if let schema = namespace.schema {
            if let problem = schema.problem { reasons.append("\(problem); \(schema.effectOfProblem)") }
            if let error = schema.errors.first { reasons.append("the snapshot violates the schema: \(error.text)") }
        }
        if let rejection = namespace.schemaRejection {
            let error = rejection.errors.first.map { ": \($0.text)" } ?? ""
            reasons.append("the schema rejects \(text(rejection))\(error)")
        }
        if let hold = namespace.hold { reasons.append("rolled back to revision \(hold.revision)") }
        for layer in namespace.layers {
            if let problem = layer.problem, problem != namespace.lastError?.message { reasons.append(problem) }
        }
        if let problem = namespace.copy?.problem { reasons.append("plain copy: \(problem)") }
        let rejections = namespace.acknowledgements.rejections
        if rejections > 0 { reasons.append("rejected by \(Human.count(rejections, "client", "clients"))") }
        if !hasExpired { reasons += [expiry].compactMap(\.self) }
        if reasons.isEmpty, namespace.state == .initializing {
            reasons.append("its source has not responded yet")
        }
        return reasons
    }

    private func text(_ quarantine: ConfigStatus.Quarantine) -> String {
        let version = quarantine.version.map { "version \($0)" } ?? "a document"
        return "\(version) would remove \(quarantine.removed) of \(quarantine.members) members"
    }

    private func text(_ rejected: ConfigStatus.Rejection) -> String {
        let what = rejected.version.map { "version \($0)" } ?? "a document"
        // A reason may begin with the version that it is about.
        return rejected.reason.hasPrefix(what + " ") ? rejected.reason : "\(what): \(rejected.reason)"
    }

    private func text(_ rejection: ConfigStatus.SchemaRejection) -> String {
        let what = rejection.layer.map { "content of layer \($0)" } ?? "locks or experiments of the settings"
        return what + (rejection.version.map { ", version \($0)" } ?? "")
    }

    /// The problems of the agent itself, each in one or two lines: its effect and its cause.
    func problems(_ info: AgentInfo.Result) -> [String] {
        var lines: [String] = []
        if let problem = info.threadProblem { lines.append("threads  \(style.problem(problem.printable))") }
        if let problem = info.settingsProblem {
            let text = "rejected, so the agent runs with earlier ones: \(problem.printable)"
            lines.append(
                "settings  \(style.problem(text))\n"
                    + "          those in effect were read \(info.settingsReadAt.dated(at: now))")
        }
        return lines
            + AgentProblemCheck.findings(info).map {
                "\($0.level.rawValue)  \(style.problem(([$0.title] + $0.detail).joined(separator: ": ").printable))"
            }
    }

    private func violation(_ error: SchemaError) -> String { style.problem(error.text.printable) }

    private func paragraph(_ namespace: ConfigStatus.Namespace) -> [String] {
        let duration = namespace.duration(at: now)
        var lines = [
            "\(style.strong(namespace.namespace.printable))  \(style.state(namespace.state)) "
                + "for \(Human.span(milliseconds: duration)), "
                + "since \(Timestamp(milliseconds: now.milliseconds - duration).local)"
        ]
        lines += rows("snapshot", snapshot(namespace))
        if let age = namespace.ageMilliseconds {
            let time = Timestamp(milliseconds: now.milliseconds - age)
            lines += rows("confirmed", ["by its source \(time.dated(at: now))"])
        }
        if let error = namespace.otherError {
            lines += rows(
                "last error",
                [style.problem("\(error.name): \(error.message)".printable), error.at.dated(at: now)])
        }
        if let error = namespace.writeError, error.message != namespace.lastError?.message {
            lines += rows(
                "disk", [style.problem("\(error.name): \(error.message)".printable), error.at.dated(at: now)])
        }
        if let rejected = namespace.otherRejection {
            lines += rows("rejected", [style.problem(text(rejected).printable), rejected.at.dated(at: now)])
        }
        if let quarantine = namespace.quarantine {
            let accept = UpstreamCheck.acceptance(in: namespace, hints)
            lines += rows(
                "quarantine",
                [
                    style.problem(text(quarantine).printable), quarantine.at.dated(at: now),
                    "accept it with: \(accept)",
                ])
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
            lines += rows(
                "rejected",
                ["\(text(rejection)), by the schema".printable, rejection.at.dated(at: now)]
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
        if let upstream = namespace.upstream {
            lines += rows("source", source(upstream, isHeld: namespace.holdsSource))
        }
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
        var lines = [by + hold.since.dated(at: now)]
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
                + ", \(rejection.at.dated(at: now))"
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
            "revision \(namespace.revision), \(Human.bytes(namespace.bytes)), published \(publishedAt.dated(at: now))",
            "epoch \(namespace.epoch.printable), \(digest.prefix(19).description.printable)…, "
                + "durability \(namespace.durability.printable)",
        ]
    }

    /// - Parameter isHeld: whether a rollback holds back the document of the source
    private func source(_ upstream: ConfigStatus.Upstream, isHeld: Bool) -> [String] {
        var lines = ["\(upstream.kind) \(upstream.location)".printable]
        let held = [
            upstream.version.map { "version \($0)" }, upstream.etag.map { "etag \($0)" },
        ].compactMap(\.self)
        if !held.isEmpty {
            lines.append("\(isHeld ? "held back:" : "current") \(held.joined(separator: ", "))".printable)
        }
        // The times of polls are not kept across restarts of the agent, so a version may be known without the time of a
        // success. An error or a rejected document is not a success.
        let none = held.isEmpty ? "no success yet" : "no success since the agent started"
        lines.append(upstream.lastSuccessAt.map { "last success \($0.dated(at: now))" } ?? none)
        if upstream.consecutiveFailures > 0 {
            let failures = Human.count(upstream.consecutiveFailures, "failure", "failures")
            let last = upstream.lastAttemptAt.map { ", the last \($0.dated(at: now))" } ?? ""
            lines.append(style.problem("\(failures) since\(last)"))
        }
        if let expiry = UpstreamCheck.expiry(of: upstream, now) { lines.append(style.problem(expiry)) }
        if let next = upstream.nextAttemptAt {
            lines.append(
                "next attempt \(Human.ahead(milliseconds: next.milliseconds - now.milliseconds)) (\(next.local))")
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
            if layer.present, let updated = layer.updatedAt { text += ", changed \(updated.dated(at: now))" }
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
