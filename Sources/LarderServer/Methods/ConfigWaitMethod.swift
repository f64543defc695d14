import LarderEventLoop
import LarderConfig
import LarderJSON
import LarderProtocol
import NIOCore

/// `config.wait`: answered when a condition holds, at once or when a snapshot meets it. Like other requests it counts until
/// it is answered, can be cancelled by `request.cancel`, and ends with its connection.
struct ConfigWaitMethod {
    let connection: Connection

    func serve(_ request: Request, _ body: MethodTable.Waiting, in slot: BatchSlot?) throws(WireError) {
        // A notification has no reply to wait for.
        guard request.id != nil else {
            slot?.leaveEmpty()
            return
        }
        let (wait, admission) = try body(RequestScope(connection), request.params)
        if let result = wait.result(in: wait.publication.current) {
            return connection.output.reply(id: request.id, result, in: slot)
        }
        if wait.timeout?.nanoseconds == 0 { throw wait.timedOut }
        let ticket = try connection.dispatcher.begin(request.id, admission, .connection, in: slot)
        begin(wait, ticket)
    }

    private func begin(_ wait: SnapshotWait, _ ticket: PendingRequests.Ticket) {
        connection.pending[ticket]?.onCancel = { wait.giveUp($0) }
        if let timeout = wait.timeout { connection.dispatcher.expire(ticket, after: timeout, with: wait.timedOut) }
        wait.begin { [connection] result in
            connection.loop.hub.remove(wait)
            // Later: a publication that ends the wait may be serving other connections, and may end thousands.
            connection.loop.deferWork { connection.complete(ticket, result) }
        }
        connection.loop.hub.add(wait)
        // A snapshot may have been published before the channel followed the publication.
        wait.look(at: wait.publication.current)
        if wait.publication.current.hasEnded { wait.giveUp(.namespaceRemoved) }
    }
}
