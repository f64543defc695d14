import ArgumentParser
import LarderClientCore
import LarderJSON
import LarderProtocol

/// `larder clients`
struct ClientsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clients",
        abstract: "List the connected clients, their traffic and the revisions they run.",
        discussion: """
            PENDING is output that the client has not read yet. RUNS lists the revisions that the client acknowledged, \
            with the namespace unless it is default. A revision that the client rejected begins with "not". UNIT is the \
            systemd unit of the process, or - without a unit, or if the process is not visible here.

            EXAMPLES:
              larder clients
              larder clients --json | jq '.clients[] | select(.pendingBytes > 0)'
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: AgentClients.self, NoParameters()) { result in
            ClientsTable(now: .now, unit: ProcessUnit.name).text(result.clients)
        }
    }
}

/// The output of `larder clients` for people: one line per connection.
struct ClientsTable {
    /// The time that ages are relative to.
    let now: Timestamp
    /// Returns the systemd unit of a client; nil without a unit, and if it is unknown.
    let unit: (AgentClients.Client) -> String?

    private static let table = TextTable(
        headings: [
            "ID", "PID", "UID", "COMMAND", "UNIT", "CONNECTED", "REQUESTS", "SUBS", "IN", "OUT", "PENDING", "RUNS",
        ],
        figures: [0, 1, 2, 6, 7, 8, 9, 10])

    /// The table without a final line end.
    func text(_ clients: [AgentClients.Client]) -> String { Self.table.text(clients.map(row)) }

    private func row(_ client: AgentClients.Client) -> [String] {
        [
            "\(client.id)", "\(client.peer.pid)", "\(client.peer.uid)",
            client.command.isEmpty ? "?" : client.command.printable,
            unit(client)?.printable ?? "-",
            client.connectedAt.ago(at: now),
            "\(client.requests)", "\(client.subscriptions)",
            Human.bytes(client.bytesReceived), Human.bytes(client.bytesSent), Human.bytes(client.pendingBytes),
            client.acknowledged.map(Self.acknowledged).joined(separator: ", "),
        ]
    }

    /// An acknowledgement of a snapshot: `41` for a revision of the default namespace, `web 7` for another namespace,
    /// `not web 8: the port is taken` for a rejection.
    private static func acknowledged(_ acknowledgement: AgentClients.Acknowledgement) -> String {
        let snapshot =
            (acknowledgement.namespace == defaultNamespace ? "" : "\(acknowledgement.namespace) ")
            + "\(acknowledgement.revision)"
        if acknowledgement.accepted { return snapshot.printable }
        return "not \(snapshot)\(acknowledgement.reason.map { ": \($0)" } ?? "")".printable
    }
}

/// Finds the systemd unit of a process by its control group.
enum ProcessUnit {
    /// The unit of a client's process, such as `shop.service` or `session-3.scope`; nil if it has none, if it has
    /// ended, or if it is not visible here, for example because it runs in another container.
    static func name(of client: AgentClients.Client) -> String? {
        let pid = client.peer.pid
        // In another container, or after the process has ended, another process can have this ID.
        guard let command = AgentProbe.command(of: pid), command.isSpelled(as: client.command),
            let groups = try? Input.contents(of: "/proc/\(pid)/cgroup")
        else { return nil }
        return name(inControlGroups: String(decoding: groups, as: UTF8.self))
    }

    /// The unit in the text of `/proc/PID/cgroup` (cgroups(7)): the innermost service or scope.
    static func name(inControlGroups text: String) -> String? {
        for line in text.split(separator: "\n") {
            // A line is `0::PATH` in version 2, and `NUMBER:NAMES:PATH` for each hierarchy of version 1.
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3, fields[1].isEmpty || fields[1] == "name=systemd" else { continue }
            let unit = fields[2].split(separator: "/").last { $0.hasSuffix(".service") || $0.hasSuffix(".scope") }
            // systemd escapes the name of a group that the kernel could use itself with an underscore.
            if let unit { return String(unit.hasPrefix("_") ? unit.dropFirst() : unit) }
        }
        return nil
    }
}

/// `larder info`
struct InfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "info",
        abstract: "Show the agent's version, files and limits, and your rights.",
        discussion: """
            EXAMPLES:
              larder info
              larder info --json | jq -r .stateDirectory
              sudo larder info --settings        the settings, and the file and line of each
            """)

    @Flag(
        help: ArgumentHelp(
            "Print the settings in larder.json and in larder.d beside it, and where each comes from.",
            discussion: "Requires permission to read these files. Values of header fields are not printed."))
    var settings = false

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        guard !settings else { return try await printSettings() }
        try await agent.printResult(of: AgentInfo.self, NoParameters()) { InfoReport.text($0) }
    }
}

extension InfoCommand {
    private func printSettings() async throws {
        try await agent.connection.withClient { client in
            let info = try await client.call(AgentInfo.self, NoParameters())
            let list =
                if let path = info.settings { try await SettingsFacts.merged(path) } else { JSONValue.array([]) }
            if let problem = info.settingsProblem {
                Output.note("the agent has rejected its settings file, so earlier settings are in effect: \(problem)")
            }
            try Output.line(agent.json ? list.compactText : Self.text(list))
        }
    }

    /// One line for each setting, with its file and line.
    static func text(_ list: JSONValue) -> String {
        let rows = list.elements.map { setting in
            let value = setting["value"]?.compactText ?? "(not shown)"
            return (
                "\(setting["setting"]?.string ?? "") = \(value)".printable,
                "\(setting["file"]?.string ?? ""):\(setting["line"]?.int ?? 1)".printable
            )
        }
        if rows.isEmpty { return "none: the defaults are in effect" }
        let width = rows.map(\.0.count).filter { $0 <= 60 }.max() ?? 0
        return rows.map { "\($0.0.padded(to: width))  \($0.1)" }.joined(separator: "\n")
    }
}

/// The output of `larder info` for people.
enum InfoReport {
    /// The report without a final line end.
    static func text(_ info: AgentInfo.Result) -> String {
        let uptime = Human.span(milliseconds: info.uptimeMilliseconds)
        let rows = [
            ("agent", "\(info.name) \(info.version), protocol \(info.protocolVersion)"),
            ("process", "\(info.pid), up \(uptime) since \(info.startedAt)"),
            ("socket", info.socket + (info.activated ? " (from systemd)" : "")),
            ("state", info.stateDirectory),
            (
                "images",
                info.imageDirectory ?? info.imageProblem.map { "none: \($0)" } ?? "none: disabled in the settings"
            ),
            (
                "settings",
                (info.settings ?? "none: the defaults are in effect")
                    + (info.settingsProblem.map { " (rejected, so earlier settings are in effect: \($0))" } ?? "")
            ),
            ("epoch", info.epoch),
            ("namespaces", info.namespaces.joined(separator: ", ")),
            ("limits", limits(info.limits)),
            ("you", "process \(info.peer.pid), user \(info.peer.uid), group \(info.peer.gid)"),
            ("rights", rights(info)),
        ]
        return rows.map { "\($0.0.padded(to: 12))\($0.1.printable)" }.joined(separator: "\n")
    }

    private static func rights(_ info: AgentInfo.Result) -> String {
        let list = RightsCheck.list
        let own = info.namespaceRights.sorted { $0.key < $1.key }
        return ([list(info.rights)] + own.map { "in \($0.key): \(list($0.value))" }).joined(separator: "; ")
    }

    private static func limits(_ limits: AgentInfo.Limits) -> String {
        "\(limits.connections) connections; per connection \(limits.subscriptionsPerConnection) subscriptions, "
            + "\(limits.requestsInFlightPerConnection) requests in flight, lines of \(Human.bytes(limits.lineBytes)), "
            + "\(Human.span(milliseconds: limits.sendTimeoutMilliseconds)) of stalled output; "
            + "per user \(limits.connectionsPerUser) connections, \(limits.subscriptionsPerUser) subscriptions, "
            + "\(limits.requestsInFlightPerUser) requests in flight, \(limits.leasesPerUser) image leases, "
            + "\(Human.bytes(limits.queuedBytesPerUser)) queued"
    }
}

/// `larder ping`
struct PingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ping",
        abstract: "Check that the agent replies.",
        discussion: """
            EXAMPLES:
              larder ping                        prints pong
              larder ping --timeout 2s || systemctl restart larder
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: AgentPing.self, NoParameters()) { _ in "pong" }
    }
}

/// `larder metrics`
struct MetricsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics",
        abstract: "Print the agent's figures in the text format of Prometheus.",
        discussion: """
            Requires the right monitor. The package has a timer, off by default, that writes the figures for the \
            textfile collector of node_exporter: systemctl enable --now larder-metrics.timer

            EXAMPLES:
              larder metrics | promtool check metrics
              larder metrics --json | jq '.namespaces[] | select(.rejected) | .namespace'
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.connection.withClient { client in
            let result = try await client.call(AgentMetrics.name)
            if agent.json { return try Output.line(result.compactText) }
            let metrics = try readable { () throws(WireError) in try AgentMetrics.Result(from: result) }
            try Output.text(MetricsText(metrics).text)
        }
    }
}

/// The figures of an agent in the text format 0.0.4 of Prometheus.
struct MetricsText {
    private typealias Labels = [(String, String)]
    private typealias Namespace = AgentMetrics.Namespace

    private(set) var text = ""

    private static let states: [ConfigState] = [.initializing, .fresh, .refreshing, .stale, .failed]

    init(_ metrics: AgentMetrics.Result) {
        gauge("build_info", "Version of the agent.", [([("version", metrics.version)], "1")])
        gauge("start_time_seconds", "Start of the agent, in seconds since 1970.", Self.seconds(metrics.startedAt))
        addNamespaces(metrics.namespaces)
        addDurations(metrics.sourceRequests)
        counter("publications_total", "Published snapshots.", metrics.publications)
        gauge("subscribers", "Open subscriptions.", "\(metrics.subscriptionsOpen)")
        gauge(
            "subscribers_behind", "Subscriptions whose client has not read earlier output.",
            "\(metrics.subscriptionsBehind)")
        gauge("connections", "Open connections.", "\(metrics.connections)")
        counter("requests_total", "Requests of clients.", metrics.requests)
        addRefusals(metrics.refused)
        if let images = metrics.images { addImages(images) }
        gauge(
            "disk_free_bytes", "Free space on the file system of a directory.",
            metrics.disks.map { ([("directory", $0.directory)], "\($0.freeBytes)") })
        gauge(
            "disk_size_bytes", "Size of the file system of a directory.",
            metrics.disks.map { ([("directory", $0.directory)], "\($0.bytes)") })
        gauge("resident_memory_bytes", "Resident memory of the agent.", "\(metrics.residentBytes)")
        gauge("open_fds", "Open file descriptors of the agent.", "\(metrics.openFiles)")
        gauge("max_fds", "Limit on open file descriptors of the agent.", "\(metrics.maximumFiles)")
    }

    private mutating func addNamespaces(_ namespaces: [Namespace]) {
        func samples(_ value: (Namespace) -> String?) -> [(Labels, String)] {
            namespaces.compactMap { namespace in value(namespace).map { ([("namespace", namespace.namespace)], $0) } }
        }
        let states = namespaces.flatMap { namespace in
            // A newer agent may have further states.
            (Self.states + (Self.states.contains(namespace.state) ? [] : [namespace.state])).map { state in
                let labels = [("namespace", namespace.namespace), ("state", state.rawValue)]
                return (labels, state == namespace.state ? "1" : "0")
            }
        }
        gauge("namespace_state", "Whether the namespace is in the state.", states)
        gauge("namespace_revision", "Revision of the current snapshot.", samples { "\($0.revision)" })
        gauge("namespace_overrides", "Overrides of the namespace.", samples { "\($0.overrides)" })
        gauge(
            "namespace_rejected", "Whether the newest content is rejected.", samples { $0.isRejected ? "1" : "0" })
        gauge(
            "source_last_success_timestamp_seconds", "Last usable response of the source, in seconds since 1970.",
            samples { $0.lastSuccessAt.map(Self.seconds) })
        let results: [(String, (Namespace) -> Int)] = [
            ("changed", \.changed), ("not_modified", \.notModified), ("failed", \.failed),
        ]
        add(
            "source_requests_total", "counter", "Refreshes from the source by result.",
            namespaces.flatMap { namespace in
                results.map { ([("namespace", namespace.namespace), ("result", $0)], "\($1(namespace))") }
            })
        gauge(
            "certificate_expiry_timestamp_seconds",
            "Expiry of the first certificate of the source's settings, in seconds since 1970.",
            samples { $0.certificateExpiresAt.map(Self.seconds) })
    }

    private mutating func addDurations(_ durations: AgentMetrics.Durations) {
        let name = "source_request_duration_seconds"
        begin(name, "histogram", "Durations of requests to sources, without long polls.")
        var count = 0
        for (index, more) in durations.counts.enumerated() {
            count += more
            let bounds = durations.boundsMilliseconds
            let bound = index < bounds.count ? Self.seconds(milliseconds: bounds[index]) : "+Inf"
            addSample(name + "_bucket", [("le", bound)], "\(count)")
        }
        addSample(name + "_sum", [], Self.seconds(milliseconds: durations.totalMilliseconds))
        addSample(name + "_count", [], "\(count)")
    }

    private mutating func addRefusals(_ refused: AgentStats.Refusals) {
        let reasons = [
            ("connections", refused.connections), ("connections_per_user", refused.connectionsPerUser),
            ("subscriptions", refused.subscriptions), ("requests", refused.requests),
            ("queued_bytes", refused.queuedBytes), ("queued_connections", refused.queuedConnections),
            ("lines", refused.lines), ("malformed", refused.malformed),
        ]
        add(
            "refused_total", "counter", "Connections, requests and lines that were refused.",
            reasons.map { ([("reason", $0)], "\($1)") })
    }

    private mutating func addImages(_ images: AgentMetrics.Images) {
        let requests = [
            ("hit", images.hits), ("miss", images.misses), ("joined", images.joined), ("stale", images.staleAnswers),
        ]
        add(
            "image_requests_total", "counter", "Requests for images by result.",
            requests.map { ([("result", $0)], "\($1)") })
        let downloads = [
            ("downloaded", images.downloaded), ("not_modified", images.revalidated), ("failed", images.failed),
        ]
        add(
            "image_downloads_total", "counter", "Downloads of images by result.",
            downloads.map { ([("result", $0)], "\($1)") })
        gauge("image_bytes", "Disk space of the cached images.", "\(images.bytes)")
        gauge("image_bytes_limit", "Limit on the disk space of the cached images.", "\(images.maximumBytes)")
        gauge("images", "Cached images.", "\(images.entries)")
        gauge(
            "image_certificate_expiry_timestamp_seconds",
            "Expiry of the first certificate in the settings of image origins, in seconds since 1970.",
            images.certificateExpiresAt.map { [([], Self.seconds($0))] } ?? [])
    }

    // MARK: Lines

    private mutating func gauge(_ name: String, _ help: String, _ value: String) { gauge(name, help, [([], value)]) }

    private mutating func gauge(_ name: String, _ help: String, _ samples: [(Labels, String)]) {
        add(name, "gauge", help, samples)
    }

    private mutating func counter(_ name: String, _ help: String, _ value: Int) {
        add(name, "counter", help, [([], "\(value)")])
    }

    private mutating func add(_ name: String, _ type: String, _ help: String, _ samples: [(Labels, String)]) {
        if samples.isEmpty { return }
        begin(name, type, help)
        for (labels, value) in samples { addSample(name, labels, value) }
    }

    private mutating func begin(_ name: String, _ type: String, _ help: String) {
        text += "# HELP larder_\(name) \(help)\n# TYPE larder_\(name) \(type)\n"
    }

    private mutating func addSample(_ name: String, _ labels: Labels, _ value: String) {
        text += "larder_"
        text += name
        var separator = "{"
        for (label, value) in labels {
            text += separator
            text += label
            text += "=\""
            text += Self.escaped(value)
            text += "\""
            separator = ","
        }
        text += labels.isEmpty ? " " : "} "
        text += value
        text += "\n"
    }

    /// The value of a label. Only a foreign agent sends characters that need an escape.
    private static func escaped(_ value: String) -> String {
        guard value.utf8.contains(where: { $0 == 0x22 || $0 == 0x5C || $0 == 0x0A }) else { return value }
        return value.reduce(into: "") { text, character in
            switch character {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            default: text.append(character)
            }
        }
    }

    private static func seconds(_ time: Timestamp) -> String { seconds(milliseconds: time.milliseconds) }

    /// A time in seconds, without zeros at the end of the fraction.
    private static func seconds(milliseconds: Int) -> String {
        let (whole, rest) = (milliseconds / 1000, milliseconds % 1000)
        if rest == 0 { return "\(whole)" }
        var digits = String("\(1000 + rest)".dropFirst())
        while digits.last == "0" { digits.removeLast() }
        return "\(whole).\(digits)"
    }
}

/// `larder call METHOD [PARAMS]`
struct CallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call",
        abstract: "Call any method of the protocol and print its result.",
        discussion: """
            PARAMS is a JSON object, or an array of positional parameters.

            EXAMPLES:
              larder call agent.stats
              larder call config.get '{"path": "search.limit"}'
              larder call config.get '["search.limit"]' --raw
              larder call rpc.discover --json
            """)

    @Argument(help: "The name of the method.", completion: .list(AllMethods.types.map { $0.name }))
    var method: String

    @Argument(help: "A JSON object or array.")
    var params: String?

    @OptionGroup var format: FormatOptions
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let params = try params.map { text throws(Failure) in try Self.params(text) }
        try await agent.connection.withClient { client in
            let result = try await client.call(method, params: params)
            try Output.line(
                agent.json ? result.compactText : format.format.text(result, isTerminal: Output.isTerminal))
        }
    }

    static func params(_ text: String) throws(Failure) -> JSONValue {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: text)
        } catch {
            throw Failure(
                .usage, "PARAMS is not JSON: \(error); write an object such as '{\"path\": \"search.limit\"}'")
        }
        guard value.kind == .object || value.kind == .array else {
            throw Failure(.usage, "PARAMS must be a JSON object or array, but has the type \(value.kind)")
        }
        return value
    }
}
