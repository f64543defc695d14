import NIOCore

/// What clients may use before they are told to wait or are refused.
///
/// The names in quotes are those of `limits` in the settings.
package struct ConnectionLimits: Sendable, Equatable {
    /// `connections`: open connections of all clients together, 1 to 1,000,000. Default: 16384.
    package var connections = 16384
    /// Whether ``connections`` was lowered to what the process's limit of open files leaves room for.
    package var isBoundByDescriptors = false
    /// `connectionsPerUser`: open connections of one user, 1 to 1,000,000. Nil, the default: a quarter of
    /// ``connections``.
    package var connectionsPerUser: Int?
    /// `subscriptionsPerConnection`: 1 to 65536. Default: 64.
    package var subscriptionsPerConnection = 64
    /// `subscriptionsPerUser`: those of all connections of one user, 1 to 10,000,000. Default: 65536.
    package var subscriptionsPerUser = 65536
    /// `requestsInFlightPerConnection`: requests that wait for their answer, 1 to 65536. Default: 64.
    package var requestsInFlightPerConnection = 64
    /// `requestsInFlightPerUser`: those of all connections of one user, 1 to 10,000,000. Default: 8192.
    package var requestsInFlightPerUser = 8192
    /// `queuedBytesPerUser`: bytes that are held for the connections of one user, because a line is not complete yet, a
    /// request not answered, or a reply not taken; 1 MiB to 1 TiB. Default: 256 MiB.
    package var queuedBytesPerUser = 256 << 20
    /// `lineBytes`: the longest request, 1 KiB to 64 MiB. Default: 1 MiB.
    package var lineBytes = 1 << 20
    /// `stallSeconds`: how long a client may accept no byte before it is dropped, 1 s to 1 hour. Default: 30 s.
    package var stall = Duration.seconds(30)

    package init() {}

    /// How many connections one user may have.
    var effectiveConnectionsPerUser: Int { connectionsPerUser ?? max(1, connections / 4) }

    /// How long a client may take no byte.
    var stallTime: TimeAmount {
        let (seconds, attoseconds) = stall.components
        return .nanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}
