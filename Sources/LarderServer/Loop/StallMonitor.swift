import LarderEventLoop
import NIOCore

/// Which clients of an event loop are watched because their output waits.
struct StallMonitor {
    fileprivate var connections: [Connection] = []
    fileprivate var isSweeping = false
}

/// Clients that take nothing are dropped. There may be thousands of them: each sweep over them is cut into pieces, between
/// which the others are served.
extension LoopContext {
    /// Watches over a client for as long as its output waits.
    func watchForStalls(of connection: Connection) {
        if connection.isWatchedForStalls { return }
        connection.isWatchedForStalls = true
        stalls.connections.append(connection)
        if stalls.isSweeping { return }
        stalls.isSweeping = true
        let limit = connection.limits.stallTime
        sweepStalls(after: min(.nanoseconds(max(limit.nanoseconds / 8, 10_000_000)), .milliseconds(500)))
    }

    private func sweepStalls(after pause: TimeAmount) {
        eventLoop.assumeIsolated().scheduleTask(in: pause) { self.sweepStalls(every: pause) }
    }

    private func sweepStalls(every pause: TimeAmount) {
        let now = NIODeadline.now()
        let waiting = stalls.connections
        stalls.connections = []
        eachInPieces(waiting) { connection in
            connection.dropIfStalled(at: now)
            connection.countHeldBytes()
            connection.isWatchedForStalls = connection.isOutputPending
            if connection.isOutputPending { self.stalls.connections.append(connection) }
        } andThen: {
            self.dropThoseInTheWay(waiting, now) {
                self.stalls.isSweeping = !self.stalls.connections.isEmpty
                guard self.stalls.isSweeping else { return }
                self.sweepStalls(after: pause)
            }
        }
    }

    /// Drops those who keep others of their user from being served, the largest first, until there are none.
    private func dropThoseInTheWay(_ waiting: [Connection], _ now: NIODeadline, andThen end: @escaping () -> Void) {
        var inTheWay: [Connection] = []
        eachInPieces(waiting) { connection in
            if connection.isInTheWay(at: now) { inTheWay.append(connection) }
        } andThen: {
            self.eachInPieces(inTheWay.sorted { $0.heldBytes > $1.heldBytes }) { connection in
                if connection.isInTheWay(at: now) { connection.dropBecauseOfUsage() }
            } andThen: {
                end()
            }
        }
    }

    /// Does something with each of many connections. What takes longer than a time slice is deferred.
    private func eachInPieces(
        _ connections: [Connection], from start: Int = 0, _ body: @escaping (Connection) -> Void,
        andThen end: @escaping () -> Void
    ) {
        let until = NIODeadline.now() + Self.turnTime
        for index in start..<connections.count {
            body(connections[index])
            guard index + 1 < connections.count, NIODeadline.now() >= until else { continue }
            return deferWork { self.eachInPieces(connections, from: index + 1, body, andThen: end) }
        }
        end()
    }
}
