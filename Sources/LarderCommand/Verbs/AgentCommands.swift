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
            with the namespace unless it is default. A revision that the client rejected begins with "not".

            EXAMPLES:
              larder clients
              larder clients --json | jq '.clients[] | select(.pendingBytes > 0)'
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: AgentClients.self, NoParameters()) { result in
            ClientsTable(now: .now).text(result.clients)
        }
    }
}

/// The output of `larder clients` for people: one line per connection.
struct ClientsTable {
    /// The time that ages are relative to.
    let now: Timestamp

    private static let table = TextTable(
        headings: ["ID", "PID", "UID", "COMMAND", "CONNECTED", "REQUESTS", "SUBS", "IN", "OUT", "PENDING", "RUNS"],
        figures: [0, 1, 2, 5, 6, 7, 8, 9])

    /// The table without a final line end.
    func text(_ clients: [AgentClients.Client]) -> String { Self.table.text(clients.map(row)) }

    private func row(_ client: AgentClients.Client) -> [String] {
        [
            "\(client.id)", "\(client.peer.pid)", "\(client.peer.uid)",
            client.command.isEmpty ? "?" : client.command.printable,
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
            "Print the settings of the agent's settings file and of larder.d beside it, and where each comes from.",
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
