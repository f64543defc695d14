import LarderConfig
import LarderProtocol

/// Reviews a connection after a change of the access rules: ends the subscriptions and cancels the requests for which
/// the connection's peer has lost the rights. Requests with the lifetime ``PendingRequests/Lifetime/committed``
/// continue.
struct AccessReview {
    let connection: Connection

    func run() {
        for subscription in connection.state.subscriptions.sorted {
            let name = subscription.topic.channel.publication.namespace
            let denial = connection.denial(of: Admission(ConfigSubscribe.name, .inNamespace(.read, name)))
            // The denial `unknownNamespace` means that the namespace was removed. The removal itself ends the
            // subscription.
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
