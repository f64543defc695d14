/// A stream of snapshots lost its agent for a while; it goes on by itself.
public struct ConfigInterruption: Sendable {
    /// What happened.
    public let error: LarderClientError
    /// How many attempts failed since the last snapshot, this one included.
    public let attempt: Int
    /// How long the stream waits before the next attempt.
    public let delay: Duration
}
