import Logging
import NIOCore

/// Feeds the service manager's watchdog while every probe is answered, and says which one is not.
///
/// A round asks all probes at once. When the last one has answered, the watchdog is fed, and half of its interval later the
/// next round begins. A round that takes a quarter of the interval is complained of: the service manager acts a quarter
/// later, and its log is to tell why. All of it happens on one event loop, which has to be nobody else's: where the
/// threads of the tasks are blocked, or a connection's event loop is, this one says so.
final class WatchdogFeeder {
    private let eventLoop: any EventLoop
    private let interval: TimeAmount
    private let probes: () -> [Probe]
    private let feed: () throws -> Void
    private let logger: Logger
    private var round = 0
    /// Who has not answered in this round, in the order in which they were asked.
    private var unanswered: [String] = []
    private var beganAt = NIODeadline.now()
    private var hasComplained = false
    private var isStopped = false
    private var complaint: Scheduled<Void>?

    /// - Parameters:
    ///   - interval: the time within which the service manager wants to be told
    ///   - probes: asked for at each round; no two have the same name
    ///   - feed: tells the service manager
    init(
        on eventLoop: any EventLoop, interval: TimeAmount, probes: @escaping () -> [Probe],
        feed: @escaping () throws -> Void, logger: Logger
    ) {
        self.eventLoop = eventLoop
        self.interval = interval
        self.probes = probes
        self.feed = feed
        self.logger = logger
    }

    /// Begins the first round. Called on the event loop, as everything here.
    func start() { beginRound() }

    /// Feeds no more, and says nothing more.
    func stop() {
        isStopped = true
        complaint?.cancel()
    }

    private func beginRound() {
        if isStopped { return }
        let probes = probes()
        round += 1
        unanswered = probes.map(\.name)
        beganAt = eventLoop.now
        hasComplained = false
        complaint = eventLoop.assumeIsolated().scheduleTask(in: interval / 4) { self.complain() }
        let (feeder, round) = (NIOLoopBound(self, eventLoop: eventLoop), round)
        for probe in probes {
            let (eventLoop, name) = (eventLoop, probe.name)
            probe.ask { eventLoop.execute { feeder.value.answered(name, inRound: round) } }
        }
        if probes.isEmpty { endRound() }
    }

    private func answered(_ name: String, inRound round: Int) {
        guard round == self.round, let index = unanswered.firstIndex(of: name) else { return }
        unanswered.remove(at: index)
        if unanswered.isEmpty { endRound() }
    }

    private func endRound() {
        complaint?.cancel()
        if isStopped { return }
        if hasComplained {
            logger.notice("all parts of the agent answer again, after \(seconds(eventLoop.now - beganAt)) s")
        }
        do {
            try feed()
        } catch {
            // The manager may hear of the next one. If not, it will act.
            logger.warning("the watchdog could not be fed", metadata: ["error": "\(error)"])
        }
        eventLoop.assumeIsolated().scheduleTask(in: interval / 2) { self.beginRound() }
    }

    private func complain() {
        if isStopped || unanswered.isEmpty { return }
        hasComplained = true
        let named = unanswered.prefix(3).joined(separator: ", ")
        let others = unanswered.count > 3 ? " and \(unanswered.count - 3) others" : ""
        logger.error(
            """
            no answer for \(seconds(eventLoop.now - beganAt)) s from \(named)\(others); unless it comes, the watchdog is \
            not fed, and the service manager ends the agent
            """,
            metadata: ["probe": "\(unanswered.joined(separator: ", "))"])
    }

    private func seconds(_ time: TimeAmount) -> String {
        let tenths = time.nanoseconds / 100_000_000
        return "\(tenths / 10).\(tenths % 10)"
    }
}

extension TimeAmount {
    fileprivate static func / (time: TimeAmount, divisor: Int64) -> TimeAmount {
        .nanoseconds(time.nanoseconds / divisor)
    }
}

/// One part of the agent that the watchdog asks for a sign of life.
struct Probe: Sendable {
    /// Which part, for the log: what stands before "does not answer".
    let name: String
    /// Asks it. What is handed over is called once it has answered, from any thread; never, where it does not answer.
    let ask: @Sendable (_ answered: @escaping @Sendable () -> Void) -> Void

    init(_ name: String, ask: @escaping @Sendable (_ answered: @escaping @Sendable () -> Void) -> Void) {
        self.name = name
        self.ask = ask
    }

    /// A probe of an actor: it has answered when a call of it returns.
    init(_ name: String, calling call: @escaping @Sendable () async -> Void) {
        self.init(name) { answered in
            // Not a child task: nobody waits for one that may never end.
            Task {
                await call()
                answered()
            }
        }
    }
}
