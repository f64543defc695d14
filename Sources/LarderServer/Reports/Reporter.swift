import LarderConfig
import LarderConfigModel
import LarderEncoding
package import LarderPlatform
package import LarderUpstream
import Logging

/// Reports the state of the host to the receiver that the settings name: once per interval, and after changes.
///
/// ``ReportPlan`` decides when. Published changes raise a signal; the actor then compares what it would report with what the
/// receiver has accepted last. One report is in flight at a time, and its failure has no effect except for a log message and
/// a problem in `agent.info`. Without settings, the actor observes nothing.
package actor Reporter {
    /// The sources of the data of reports, and the functions that send and log them.
    struct Environment: Sendable {
        let namespaces: ConfigNamespaces
        let acknowledgements: AcknowledgementRegistry
        /// Determines when this host reports.
        let hostIdentity: String
        let host: @Sendable () -> ReportedHost
        /// The version of the agent.
        let version: String
        /// Sends a report. Returns why it was not accepted; nil if it was.
        let send: @Sendable (ReportSettings, [UInt8]) async -> UpstreamError?
        /// Called after each report with the reason why it was not accepted; nil if it was.
        let note: @Sendable (String?) -> Void
        var clock: any Clock<Duration> = ContinuousClock()
        var wallClock = WallClock.system
        let logger: Logger
    }

    private let environment: Environment
    private var generator: any RandomNumberGenerator & Sendable
    /// The time since the creation of the actor.
    private let uptime: @Sendable () -> Duration
    /// Raised when a report may be due.
    nonisolated let changes: Signal
    nonisolated let wakeUps: AsyncStream<Void>
    /// Nil if the settings request no reports.
    private var settings: ReportSettings?
    private var plan: ReportPlan?
    /// Increases with each change of the settings.
    private var generation = 0
    /// The condition in the last report that the receiver accepted; nil before the first.
    private var reported: [UInt8]?
    private var problem: String?
    /// Raises the signal when the next report is due.
    private var timer: Task<Void, Never>?
    /// Raises the signal after publications; nil without settings.
    private var forwarding: Task<Void, Never>?
    /// The report in flight.
    private var sending: Task<UpstreamError?, Never>?
    /// The namespaces whose status is observed, by name.
    private var observed: [String: ConfigPublication] = [:]

    /// The minimum time between two comparisons. Changes in between are compared together.
    static let pause = Duration.seconds(1)
    /// How long a receiver may take to respond.
    private static let timeout = Duration.seconds(10)

    init(
        _ environment: Environment,
        generator: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()
    ) {
        self.environment = environment
        self.generator = generator
        uptime = environment.clock.stopwatch()
        (changes, wakeUps) = Signal.makeStream()
    }

    /// - Parameters:
    ///   - hostIdentity: determines when this host reports
    ///   - host: returns the names of the host
    package init(
        _ context: ServerContext, _ server: AgentServer, fetcher: HTTPFetcher, blocking: BlockingThreadPool,
        hostIdentity: String, host: @escaping @Sendable () -> ReportedHost
    ) {
        self.init(
            Environment(
                namespaces: context.namespaces, acknowledgements: server.acknowledgements, hostIdentity: hostIdentity,
                host: host, version: context.identity.version,
                send: { settings, body in await Self.send(body, settings, fetcher, blocking) },
                note: { context.reportProblem = $0 }, logger: context.logger))
    }

    private nonisolated static func send(
        _ body: [UInt8], _ settings: ReportSettings, _ fetcher: HTTPFetcher, _ blocking: BlockingThreadPool
    ) async -> UpstreamError? {
        var request = FetchRequest(
            url: settings.url, body: body, timeouts: FetchTimeouts(idle: Self.timeout, whole: Self.timeout))
        do throws(UpstreamError) {
            try await settings.access.open(&request, blocking)
            try await fetcher.send(report: request)
            return nil
        } catch {
            return error
        }
    }

    /// Whether the settings request reports.
    package var isReporting: Bool { settings != nil }

    /// Applies settings, also to namespaces that have been added since the last call. Cancels a report in flight if the
    /// settings differ. The first report with new settings follows as after a change.
    /// - Parameter new: nil for no reports
    package func use(_ new: ReportSettings?) {
        if new != nil { observeNamespaces() }
        guard new != settings else { return }
        settings = new
        generation += 1
        sending?.cancel()
        reported = nil
        note(nil)
        plan = new.map { settings in
            ReportPlan(
                interval: settings.interval, window: settings.splay,
                seed: environment.hostIdentity + "\u{0}report\u{0}" + settings.url, startingAt: uptime())
        }
        if new == nil {
            forwarding?.cancel()
            forwarding = nil
        } else if forwarding == nil {
            environment.acknowledgements.raise(changes)
            forwarding = Task { [changes, namespaces = environment.namespaces] in
                for await _ in namespaces.changes() { changes.raise() }
            }
        }
        changes.raise()
    }

    /// Observes the status of the namespaces that exist now. The observation ends with a namespace.
    private func observeNamespaces() {
        let publications = environment.namespaces.all.map(\.publication)
        let previous = observed
        observed = Dictionary(publications.map { ($0.namespace, $0) }) { first, _ in first }
        for publication in publications where previous[publication.namespace] !== publication {
            publication.observeStatus { [changes] _ in changes.raise() }
        }
    }

    /// Reports until the task is cancelled.
    package nonisolated func run() async {
        for await _ in wakeUps {
            changes.take()
            await step()
            try? await environment.clock.sleep(for: Self.pause)
        }
        await stop()
    }

    /// Ends the tasks of the actor.
    func stop() {
        timer?.cancel()
        forwarding?.cancel()
        (timer, forwarding) = (nil, nil)
    }

    /// When the next report is due, as a time since the creation of the actor; nil for none.
    var due: Duration? { plan?.due }

    /// Compares the state of the host with what was reported last, and sends a report if one is due. Called for one wake-up
    /// at a time.
    func step() async {
        timer?.cancel()
        timer = nil
        guard let settings else { return }
        let now = uptime()
        if plan?.isAwaitingChange(at: now) == true, condition(settings) != reported { plan?.changed(at: now) }
        if let due = plan?.due, due <= now { await report(settings) }
        guard let due = plan?.due else { return }
        let wait = max(.zero, due - uptime())
        timer = Task { [changes, clock = environment.clock] in
            if (try? await clock.sleep(for: wait)) != nil { changes.raise() }
        }
    }

    private func condition(_ settings: ReportSettings) -> [UInt8] {
        HostReport.condition(of: environment.namespaces.all, environment.acknowledgements, settings)
    }

    private func report(_ settings: ReportSettings) async {
        let current = generation
        plan?.began(at: uptime())
        let report = await collected(settings)
        if current != generation { return }
        let task = Task { [send = environment.send] in await send(settings, report.body) }
        sending = task
        let error = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        // New settings have replaced the plan.
        if current != generation || Task.isCancelled { return }
        sending = nil
        plan?.ended(
            error.map { .failed(retryAfter: $0.retryAfter) } ?? .accepted, at: uptime(),
            time: .milliseconds(environment.wallClock.now), using: &generator)
        if error == nil { reported = report.condition }
        note(error?.message)
    }

    /// Collects a report off every actor.
    @concurrent
    private nonisolated func collected(_ settings: ReportSettings) async -> HostReport {
        let namespaces = environment.namespaces.all
        for namespace in namespaces {
            let digest = namespace.publication.current.snapshot.contentDigest
            if !digest.isReady { await digest.computeConcurrently() }
        }
        return HostReport(
            namespaces, environment.acknowledgements, settings, host: environment.host(),
            version: environment.version, now: environment.wallClock.now)
    }

    /// Records why the last report was not accepted; nil if it was. Logs only the first of several failures.
    private func note(_ new: String?) {
        defer { problem = new }
        environment.note(new)
        if let new, problem == nil {
            environment.logger.warning(
                "the report of this host was not accepted, later ones follow at their times: \(new)",
                metadata: ["error": "\(new)"])
        } else if new == nil, problem != nil, settings != nil {
            environment.logger.notice("reports of this host are accepted again")
        }
    }
}
