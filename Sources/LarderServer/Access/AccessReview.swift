import LarderConfig
import LarderProtocol

/// Ends what the peer of a connection may no longer have after the rules of access have changed. Committed changes continue.
struct AccessReview {
    let connection: Connection

    func run() {
        let scope = RequestScope(connection)
        for subscription in connection.subscriptions.sorted {
            let name = subscription.topic.channel.publication.namespace
            let denial = scope.refusal(of: Admission(ConfigSubscribe.name, .inNamespace(.read, name)))
            // A namespace that was removed ends its subscriptions itself.
            if denial?.right != nil { subscription.end(.denied) }
        }
        for ticket in connection.pending.tickets(.connection) {
            guard let request = connection.pending[ticket], let denial = scope.refusal(of: request.admission),
                denial.right != nil
            else { continue }
            request.denial = denial
            request.cancel(denial)
        }
        connection.output.flush()
    }
}
