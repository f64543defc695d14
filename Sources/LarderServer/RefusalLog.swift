import Logging
import NIOCore
import Synchronization

/// Logs that connections are refused: the first one at once, and then one line for all that follow in a while. Whoever
/// connects in a loop would fill the log otherwise.
final class RefusalLog: Sendable {
    /// The time from one line to the next.
    static let interval = TimeAmount.seconds(10)

    private struct State {
        /// Whether a line was written a short while ago.
        var isQuiet = false
        /// Refused since that line.
        var refused = 0
    }

    private let state = Mutex(State())

    /// Takes note of a connection that was refused.
    /// - Parameter eventLoop: the current one, on which the next line waits for its time.
    func add(_ limits: LimitSettings, on eventLoop: any EventLoop, _ logger: Logger) {
        let isFirst = state.withLock { state in
            defer { state.isQuiet = true }
            state.refused += 1
            return !state.isQuiet
        }
        if isFirst { write(limits, on: eventLoop, logger) }
    }

    private func write(_ limits: LimitSettings, on eventLoop: any EventLoop, _ logger: Logger) {
        let refused = state.withLock { state in
            defer { state.refused = 0 }
            state.isQuiet = state.refused > 0
            return state.refused
        }
        if refused == 0 { return }
        logger.warning(
            limits.isBoundByDescriptors
                ? "connections were refused: the limit of open files allows no more"
                : "connections were refused: there are as many as limits.connections allows",
            metadata: ["refused": "\(refused)", "limit": "\(limits.connections)"])
        eventLoop.scheduleTask(in: Self.interval) { self.write(limits, on: eventLoop, logger) }
    }
}
