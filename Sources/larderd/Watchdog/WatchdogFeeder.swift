import Logging
import NIOCore

/// Notifies the watchdog of the service manager as long as all parts of the agent respond to probes, and logs the parts
/// that do not respond.
///
/// Each round sends all probes at once. When all parts have responded, the watchdog is notified, and the next round
/// begins half an interval later. If a round takes longer than a quarter of the interval, the parts that have not
/// responded are logged: the service manager kills the agent a quarter of the interval later, and the log should show
/// why. All methods run on one event loop, which must not be shared, so that the feeder still works when the threads of
/// tasks or connections are blocked.
final class WatchdogFeeder {
    private let eventLoop: any EventLoop
    private let interval: TimeAmount
    private let probes: () -> [Probe]
    private let feed: () throws -> Void
    private let logger: Logger
    private var round = 0
    /// The probes of this round that have not responded, in the order in which they were sent.
    private var pendingProbes: [String] = []
    private var beganAt = NIODeadline.now()
    private var hasReportedMissing = false
    private var isStopped = false
    private var reportTimer: Scheduled<Void>?

    /// - Parameters:
    ///   - interval: the timeout of the service manager's watchdog
    ///   - probes: returns the probes for a round, with distinct names
    ///   - feed: notifies the service manager
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

    /// Starts the first round. All methods must be called on the event loop.
    func start() { beginRound() }

    /// Stops the rounds. Nothing is sent or logged afterwards.
    func stop() {
        isStopped = true
        reportTimer?.cancel()
    }

    private func beginRound() {
        if isStopped { return }
        let probes = probes()
        round += 1
        pendingProbes = probes.map(\.name)
        beganAt = eventLoop.now
        hasReportedMissing = false
        reportTimer = eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(interval.nanoseconds / 4)) {
            self.reportMissing()
        }
        let (feeder, round) = (NIOLoopBound(self, eventLoop: eventLoop), round)
        for probe in probes {
            let (eventLoop, name) = (eventLoop, probe.name)
            probe.send { eventLoop.execute { feeder.value.responded(name, inRound: round) } }
        }
        if probes.isEmpty { endRound() }
    }

    private func responded(_ name: String, inRound round: Int) {
        guard round == self.round, let index = pendingProbes.firstIndex(of: name) else { return }
        pendingProbes.remove(at: index)
        if pendingProbes.isEmpty { endRound() }
    }

    private func endRound() {
        reportTimer?.cancel()
        if isStopped { return }
        if hasReportedMissing {
            logger.notice("all parts of the agent respond again, after \(seconds(eventLoop.now - beganAt)) s")
        }
        do {
            try feed()
        } catch {
            // The next round notifies the watchdog again. If that notification also fails, the service manager kills
            // the agent.
            logger.warning("cannot notify the watchdog", metadata: ["error": "\(error)"])
        }
        eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(interval.nanoseconds / 2)) { self.beginRound() }
    }

    private func reportMissing() {
        if isStopped || pendingProbes.isEmpty { return }
        hasReportedMissing = true
        let named = pendingProbes.prefix(3).joined(separator: ", ")
        let others = pendingProbes.count > 3 ? ", \(pendingProbes.count - 3) more" : ""
        logger.error(
            """
            no response for \(seconds(eventLoop.now - beganAt)) s from \(named)\(others); the watchdog is not \
            notified until all parts respond, and the service manager kills the agent if that takes too long
            """,
            metadata: ["probe": "\(pendingProbes.joined(separator: ", "))"])
    }

    private func seconds(_ time: TimeAmount) -> String {
        let tenths = time.nanoseconds / 100_000_000
        return "\(tenths / 10).\(tenths % 10)"
    }
}

/// A part of the agent that the watchdog checks.
struct Probe: Sendable {
    /// The name of the part, for the log.
    let name: String
    /// Sends the probe. The part calls `responded` from any thread when it responds, and never if it hangs.
    let send: @Sendable (_ responded: @escaping @Sendable () -> Void) -> Void
}

extension Probe {
    /// A probe of an actor. The actor has responded when `call` returns.
    init(name: String, calling call: @escaping @Sendable () async -> Void) {
        self.init(name: name) { responded in
            // The task is unstructured, so that no other task waits for a call that may never return.
            Task {
                await call()
                responded()
            }
        }
    }
}
