import LarderConfig
import LarderProtocol

/// Ends the subscriptions and requests that the peer of a connection may no longer have, after the rules of access have
/// changed. Committed changes continue.
struct AccessReview {
    let connection: Connection

    func run() {
        for subscription in connection.state.subscriptions.sorted {
            let name = subscription.topic.channel.publication.namespace
            let denial = connection.denial(of: Admission(ConfigSubscribe.name, .inNamespace(.read, name)))
            // A namespace that was removed ends its subscriptions itself.
            if let denial, denial.isDenied { subscription.end(.denied) }
        }
        for ticket in connection.state.pending.tickets(.connection) {
            guard let request = connection.state.pending[ticket], let denial = connection.denial(of: request.admission),
                denial.isDenied
            else { continue }
            request.denial = denial.error
            request.cancel(denial.error)
        }
        connection.output.flush()
    }
}
