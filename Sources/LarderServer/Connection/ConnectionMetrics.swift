import LarderPlatform
import LarderConfig
import LarderProtocol

/// Counters of one connection, as `agent.clients` reports them.
struct ConnectionMetrics {
    let connectedAt = Timestamp(milliseconds: WallClock.system.now)
    /// The number of lines served.
    var requests = 0
    var bytesReceived = 0
    /// Whether the client has acknowledged a snapshot.
    var hasAcknowledged = false
}
