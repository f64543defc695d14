import LarderProtocol
import Logging
import NIOCore

/// Closes connections whose clients do not read. A sweep checks all monitored connections. There may be thousands, so
/// the sweep is divided into time slices.
final class StallMonitor {
    /// If more bytes are buffered for a user than `limits.queuedBytesPerUser`, a connection of that user is closed
    /// after this time without progress of its output, or after ``ConnectionLimits/sendTimeout`` if that is shorter.
    private static let maxStallOverLimit = TimeAmount.seconds(2)

    /// The monitored connections: those with pending output, and those whose output has drained since the last sweep.
    private var connections: [Connection] = []
    private var isSweeping = false

    /// Monitors a connection while it has pending output.
    func watch(_ connection: Connection) {
        guard connection.output.beginMonitoring() else { return }
        connections.append(connection)
        if isSweeping { return }
        isSweeping = true
        let limit = connection.usage.limits.sendTimeoutAmount
        let interval = min(TimeAmount.nanoseconds(max(limit.nanoseconds / 8, 10_000_000)), .milliseconds(500))
        scheduleSweep(every: interval, on: connection.loop)
    }

    private func scheduleSweep(every interval: TimeAmount, on loop: LoopContext) {
        loop.eventLoop.assumeIsolated().scheduleTask(in: interval) { self.sweep(every: interval, on: loop) }
    }

    private func sweep(every interval: TimeAmount, on loop: LoopContext) {
        let (now, swept) = (NIODeadline.now(), connections)
        connections = []
        loop.eventLoop.forEachInSlices(swept) { connection in
            self.closeIfStalled(connection, at: now)
            connection.chargeBufferedBytes()
            if connection.output.continueMonitoring() { self.connections.append(connection) }
        } andThen: {
            self.closeOverLimit(swept, at: now, on: loop) {
                self.isSweeping = !self.connections.isEmpty
                if self.isSweeping { self.scheduleSweep(every: interval, on: loop) }
            }
        }
    }

    /// Closes stalled connections of users who exceed their limit on buffered bytes, until each user is within the
    /// limit. Begins with the connections that have the most bytes. Until a user is within the limit, large requests
    /// and replies on the user's other connections are refused.
    private func closeOverLimit(
        _ swept: [Connection], at now: NIODeadline, on loop: LoopContext, andThen end: @escaping () -> Void
    ) {
        var candidates: [Connection] = []
        loop.eventLoop.forEachInSlices(swept) { connection in
            if Self.isStalledOverLimit(connection, at: now) { candidates.append(connection) }
        } andThen: {
            candidates.sort { $0.usage.chargedBytes > $1.usage.chargedBytes }
            let close = { (connection: Connection) in
                if Self.isStalledOverLimit(connection, at: now) { self.closeOverLimit(connection) }
            }
            loop.eventLoop.forEachInSlices(candidates, close, andThen: end)
        }
    }

    private static func isStalledOverLimit(_ connection: Connection, at now: NIODeadline) -> Bool {
        let usage = connection.usage
        // Memory that is only reserved for replies is not queued for a client that does not read.
        guard usage.user.exceedsQueuedBytesWithoutReservations(usage.limits),
            let stalled = connection.output.stalledTime(at: now)
        else { return false }
        return stalled >= min(maxStallOverLimit, usage.limits.sendTimeoutAmount)
    }

    private func closeIfStalled(_ connection: Connection, at now: NIODeadline) {
        guard let stalled = connection.output.stalledTime(at: now),
            stalled >= connection.usage.limits.sendTimeoutAmount
        else { return }
        connection.loop.traffic.connectionsStalled += 1
        connection.loop.server.logger.warning(
            "disconnected a client that does not read",
            metadata: connection.logMetadata([
                "seconds": "\(stalled.nanoseconds / 1_000_000_000)",
                "pending_bytes": "\(connection.output.pendingBytes)",
            ]))
        connection.close()
    }

    private func closeOverLimit(_ connection: Connection) {
        connection.loop.traffic.refused.queuedConnections += 1
        connection.loop.server.logger.warning(
            "disconnected a client that does not read, because its user exceeds limits.queuedBytesPerUser",
            metadata: connection.logMetadata(["pending_bytes": "\(connection.output.pendingBytes)"]))
        connection.close()
    }
}
