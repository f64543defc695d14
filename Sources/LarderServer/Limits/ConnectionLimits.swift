import NIOCore

/// The resources that clients may use. Each description begins with the name of the member of `limits` in the settings.
package struct ConnectionLimits: Sendable, Equatable {
    /// `connections`: the maximum number of open connections, 1 to 1,000,000. Default: 16384.
    package var connections = 16384
    /// Whether ``connections`` was lowered to fit into the process's limit of open files.
    package var isBoundByDescriptors = false
    /// `connectionsPerUser`: the maximum number of open connections of one user, 1 to 1,000,000. Nil (the default) for
    /// a quarter of ``connections``.
    package var connectionsPerUser: Int?
    /// `subscriptionsPerConnection`: the maximum number of subscriptions, 1 to 65536. Default: 64.
    package var subscriptionsPerConnection = 64
    /// `subscriptionsPerUser`: the maximum number of subscriptions on all connections of one user, 1 to 10,000,000.
    /// Default: 65536.
    package var subscriptionsPerUser = 65536
    /// `requestsInFlightPerConnection`: the maximum number of unanswered requests, 1 to 65536. Default: 64.
    package var requestsInFlightPerConnection = 64
    /// `requestsInFlightPerUser`: the maximum number of unanswered requests on all connections of one user, 1 to
    /// 10,000,000. Default: 8192.
    package var requestsInFlightPerUser = 8192
    /// `leasesPerUser`: the maximum number of image leases on all connections of one user, 1 to 10,000,000. Default:
    /// 65536.
    package var leasesPerUser = 65536
    /// `queuedBytesPerUser`: the maximum number of bytes buffered for the connections of one user, in incomplete lines,
    /// unanswered requests and unread replies, 1 MiB to 1 TiB. Default: 256 MiB.
    package var queuedBytesPerUser = 256 << 20
    /// `lineBytes`: the maximum length of a request in bytes, 1 KiB to 64 MiB. Default: 1 MiB.
    package var lineBytes = 1 << 20
    /// `stallSeconds`: how long a client may accept no output before it is disconnected, 1 s to 1 hour. Default: 30 s.
    package var stall = Duration.seconds(30)

    package init() {}

    /// The maximum number of connections of all users except root and the agent's own user, so that these two can always
    /// connect. The files that clients pass and receive count like connections, because each uses a descriptor, too.
    var connectionsOfOthers: Int { connections - min(16, connections / 4) }

    /// The maximum number of connections of one user.
    var effectiveConnectionsPerUser: Int { connectionsPerUser ?? max(1, connections / 4) }

    /// ``stall`` as the type that event loops use.
    var stallTime: TimeAmount {
        let (seconds, attoseconds) = stall.components
        return .nanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}
