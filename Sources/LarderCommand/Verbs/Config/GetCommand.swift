import ArgumentParser
import LarderClientCore
import LarderProtocol

/// `larder get [PATH]`
struct GetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print a value.",
        discussion: """
            Strings are printed without quotes, and objects and arrays as JSON on several lines, or on one line with \
            --raw. The exit status is 3 if there is no value at the path. If the agent has not replied after two seconds \
            and systemd cannot start it, the command ends with status 5.

            EXAMPLES:
              larder get                         the whole configuration
              larder get search.limit            prints 25
              larder get /hosts/a.example.org    a name that contains dots, as a JSON Pointer
              larder get search --json           with revision, epoch and state
              larder get search --max-age 5s     polls the source first if it confirmed the value more than 5 s ago
              limit=$(larder get search.limit) || limit=10
            """)

    @OptionGroup var path: PathArgument

    @Option(
        help: ArgumentHelp(
            "Poll the remote source first if it last confirmed the value longer ago than this.", valueName: "time"),
        transform: TimeSpan.parse)
    var maxAge: TimeSpan?

    @Option(
        help: ArgumentHelp(
            "With --max-age: if that poll fails, accept a value that was confirmed within this time.", valueName: "time"
        ),
        transform: TimeSpan.parse)
    var staleIfError: TimeSpan?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var format: FormatOptions
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if staleIfError != nil, maxAge == nil {
            throw ValidationError("--stale-if-error requires --max-age; add it")
        }
    }

    func run() async throws {
        let parameters = ConfigGet.Parameters(
            path: try path.path, namespace: namespace.namespace, maximumAgeSeconds: maxAge?.seconds,
            staleIfErrorSeconds: staleIfError?.seconds)
        let params = JSONValue.building { parameters.write(to: &$0) }
        let (socket, hints) = (agent.connection.socket, agent.connection.hints)
        let place = PathAdvice.Place(path: path.text, namespace: namespace.namespace)
        try await agent.connection.withClient(reading: place) { client in
            let reply = Task { try await client.call(ConfigGet.name, params: params) }
            let inquiry = Task {
                let failure = await ServiceInquiry(socket: socket).failure()
                if failure != nil { reply.cancel() }
                return failure
            }
            defer { inquiry.cancel() }
            do {
                try agent.print(try await reply.value, of: ConfigGet.self) { result in
                    format.format.text(result.value, isTerminal: Output.isTerminal)
                }
            } catch let error as LarderClientError where error.code == .cancelled {
                throw await inquiry.value ?? Failure(error, hints)
            }
        }
    }
}

/// Asks systemd whether an agent that does not reply can still do so.
struct ServiceInquiry {
    /// How long a request waits for a reply before systemd is asked for the first time.
    static let patience = Duration.seconds(2)

    /// The command that shows the cause and the remedy.
    let doctor: String
    let probe: () async -> ServiceFacts
    let sleep: (Duration) async throws -> Void

    /// An inquiry about the agent of a socket.
    /// - Parameter socket: the value of `--socket`
    init(socket: String?) {
        self.init(doctor: Hints(socket: socket).command("larder doctor")) {
            await ServiceFacts.probe(for: SocketFacts(option: socket))
        } sleep: {
            try await ContinuousClock().sleep(for: $0)
        }
    }

    init(
        doctor: String, probe: @escaping () async -> ServiceFacts, sleep: @escaping (Duration) async throws -> Void
    ) {
        (self.doctor, self.probe, self.sleep) = (doctor, probe, sleep)
    }

    /// Waits until systemd reports that the service has failed, or that it was restarted again since the last inquiry
    /// and does not run. The inquiries are at increasing intervals.
    /// - Returns: nil if systemd does not manage the agent, or if the task was cancelled
    func failure() async -> Failure? {
        var interval = Self.patience
        var restarts: Int?
        while (try? await sleep(interval)) != nil {
            guard case .units(let units) = await probe(), !Task.isCancelled else { return nil }
            // Otherwise the agent that accepted the connection is not the one of the unit.
            if units.socket.isUp {
                let service = units.service
                if service.activeState == "failed" { return failure("larder.service has failed") }
                if service.activeState == "activating", let restarts, service.restarts > restarts {
                    return failure("systemd has restarted larder.service \(service.restarts) times")
                }
            }
            if restarts != nil { interval *= 2 }
            restarts = units.service.restarts
        }
        return nil
    }

    private func failure(_ reason: String) -> Failure {
        Failure(.unreachable, "the agent does not reply: \(reason); find the cause with: \(doctor)")
    }
}
