import LarderJSON
import LarderProtocol
import Logging
import NIOCore

/// What the connection takes of what its user may have.
extension Connection {
    /// A connection that takes no byte for so long, while too much is held for its user, is closed.
    private static let patience = TimeAmount.seconds(2)

    /// The path of a subscription counts from here on. Shorter ones are bounded by the number of subscriptions.
    private static let longPath = 1024

    // MARK: Subscriptions

    /// Takes a place for a subscription, and room for its path.
    /// - Returns: how much it counts as long as it is open.
    func admitSubscription(to path: JSONPath) throws(WireError) -> Int {
        let length = path.segments.reduce(0) { $0 + $1.utf8.count }
        let bytes = length > Self.longPath ? length : 0
        if bytes > 0, let error = refusalOfMore() { throw error }
        do throws(WireError) {
            guard subscriptions.count < limits.subscriptionsPerConnection else {
                throw WireError(
                    .limitExceeded,
                    "a connection may have \(limits.subscriptionsPerConnection) subscriptions; end one or connect again"
                )
            }
            try usage.addSubscription(limits)
        } catch {
            loop.traffic.refused.subscriptions += 1
            throw error
        }
        usage.hold(bytes)
        return bytes
    }

    /// Gives the place of a subscription back.
    func endSubscription(holding bytes: Int) {
        usage.removeSubscription()
        usage.hold(-bytes)
    }

    // MARK: Requests

    /// Takes a place for a request that waits.
    /// - Returns: how much its line counts as long as it does.
    func admitToFlight() throws(WireError) -> Int {
        // What somebody handed over who is gone is carried out.
        if isClosed {
            usage.addOwedRequest()
            return 0
        }
        let bytes = lineBytes > UserUsage.largeBytes ? lineBytes : 0
        if bytes > 0, let error = refusalOfMore() { throw error }
        do throws(WireError) {
            try usage.addRequest(limits)
        } catch {
            loop.traffic.refused.requests += 1
            log(error, "requestsInFlightPerUser")
            throw error
        }
        // The requests of a batch share its line.
        lineBytes = 0
        usage.hold(bytes)
        return bytes
    }

    /// Gives the place of a request back.
    func endFlight(of request: PendingRequest) {
        usage.removeRequest()
        if request.heldBytes > 0 { usage.hold(-request.heldBytes) }
    }

    /// Gives back the places of requests as the connection ends. What is carried out all the same keeps its place until
    /// then: whoever connects, asks and leaves again and again would have no limit otherwise.
    func endFlights() {
        for (ticket, request) in inFlight {
            if request.heldBytes > 0 { usage.hold(-request.heldBytes) }
            if request.endsWithConnection { usage.removeRequest() } else { owed.insert(ticket) }
        }
    }

    /// A request ended whose connection is gone.
    func endOwed(_ ticket: Int) {
        if owed.remove(ticket) != nil { loop.registry.users.removeOwedRequest(usage) }
    }

    // MARK: Bytes

    /// Counts what is held for the client.
    func countHeldBytes() {
        let kept = unfinishedBytes + batchBytes + (unstartedBatch?.lineBytes ?? 0)
        let bytes = isClosed ? 0 : output.pendingBytes + kept
        if bytes == heldBytes { return }
        usage.hold(bytes - heldBytes)
        heldBytes = bytes
    }

    /// Why nothing more that is large is taken or given; nil where it is.
    func refusalOfMore() -> WireError? {
        guard usage.hasTooMuch(limits) else { return nil }
        let error = usage.tooMuch(limits)
        countRefusalOfMore(error)
        return error
    }

    /// Counts that something was refused because too much is held.
    func countRefusalOfMore(_ error: WireError) {
        loop.traffic.refused.queuedBytes += 1
        log(error, "queuedBytesPerUser")
    }

    private func log(_ error: WireError, _ limit: String) {
        loop.server.refusals.addUsage(error, limit, of: peer)
    }

    /// Takes back a reply that only tells something, if it is large and too much is held already.
    func withholdIfTooMuch(_ id: RequestID?, from mark: JSONWriter.Mark) {
        guard loop.output.size(since: mark) > UserUsage.largeBytes, let error = refusalOfMore() else { return }
        loop.output.rewind(to: mark)
        reply(id: id, error, in: nil)
    }

    /// Counts what is held of a line that is not complete, and drops it if it is long and too much is held already.
    func countUnfinishedLine() {
        unfinishedBytes = framer.pendingBytes
        if unfinishedBytes > UserUsage.largeBytes, let error = refusalOfMore() {
            framer.dropUnfinishedLine()
            unfinishedBytes = 0
            refuse(error)
        }
        countHeldBytes()
    }

    /// Whether the connection keeps others of its user from being served, and takes nothing.
    func isInTheWay(at now: NIODeadline) -> Bool {
        guard usage.hasTooMuch(limits), let stalled = output.stalledTime(at: now) else { return false }
        return stalled >= min(Self.patience, limits.stallTime)
    }

    /// Closes the connection because too much is held for its user.
    func dropBecauseOfUsage() {
        loop.traffic.refused.queuedConnections += 1
        loop.server.logger.warning(
            "a client that does not read was dropped: more waits for its user than limits.queuedBytesPerUser allows",
            metadata: logMetadata(["pending_bytes": "\(output.pendingBytes)"]))
        close()
    }
}
