import LarderProtocol

/// Where the connection leaves what a subscription brings. It is called on the connection's event loop.
protocol EventReceiver: Sendable {
    /// Takes an event.
    /// - Throws: `protocolViolation`, after which the connection is of no use.
    func receive(_ event: ConfigEvent) throws(LarderClientError)

    /// Says that the subscription is over.
    func interrupt(_ error: LarderClientError)

    /// Says that the settings ended the subscription.
    func withdraw()
}

/// A subscription at the agent. It ends when nobody refers to it any more.
final class OpenSubscription: Sendable {
    private let connection: Connection
    private let number: Int

    init(connection: Connection, number: Int) {
        self.connection = connection
        self.number = number
    }

    deinit { connection.unsubscribe(number) }
}
