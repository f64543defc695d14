import LarderEventLoop
import LarderConfig
import LarderJSON
import LarderProtocol
import NIOCore

/// Requests that wait for a condition. Like all others they count until they are answered, are cancelled by
/// `request.cancel`, and end with their connection.
extension Connection {
    /// Answers a request once its condition holds: at once, or when a snapshot comes that meets it.
    func serveWhenMet(_ request: Request, _ body: MethodTable.Waiting, in place: BatchSlot?) {
        // Nobody would hear of it.
        guard request.id != nil else {
            place?.leaveEmpty()
            return
        }
        do throws(WireError) {
            let (wait, admission) = try body(scope, request.params)
            if let result = wait.result(in: wait.publication.current) {
                return reply(id: request.id, result, in: place)
            }
            if wait.timeout?.nanoseconds == 0 { throw wait.timedOut }
            try begin(wait, for: request, admission, in: place)
        } catch {
            reply(id: request.id, error, in: place)
        }
    }

    private func begin(
        _ wait: SnapshotWait, for request: Request, _ admission: Admission, in place: BatchSlot?
    ) throws(WireError) {
        let ticket = try ticket(for: request.id, admission, in: place, endsWithConnection: true)
        inFlight[ticket]?.cancel = { wait.giveUp($0) }
        wait.begin(on: loop.eventLoop) { result in
            self.loop.hub.remove(wait)
            // Not here: whoever found that it is over, such as a publication, may be at work with other connections, and may
            // find thousands.
            self.loop.deferWork { self.complete(ticket, result) }
        }
        loop.hub.add(wait)
        // Something may have been published before the feed was there.
        wait.look(at: wait.publication.current)
        if wait.publication.current.hasEnded { wait.giveUp(.namespaceRemoved) }
    }
}
