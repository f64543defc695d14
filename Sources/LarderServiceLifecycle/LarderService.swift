// `import LarderServiceLifecycle` is enough to write a service group with a client.
@_exported public import LarderClient
@_exported public import ServiceLifecycle

/// Runs a client in a service group.
///
/// ```swift
/// import LarderServiceLifecycle
/// import Logging
///
/// let client = LarderClient()
/// let follower = ClosureService {
///     for try await snapshot in client.config.snapshots(at: "search").cancelOnGracefulShutdown() {
///         print("at most \(snapshot.value?["limit"]?.int ?? 10) results")
///     }
/// }
/// let group = ServiceGroup(
///     services: [LarderService(client), follower], gracefulShutdownSignals: [.sigterm],
///     logger: Logger(label: "search"))
/// try await group.run()
/// ```
///
/// The agent need not run when the group starts. The client connects as soon as it does, and reconnects after each
/// disconnect.
///
/// **Order.** List the client before the services that use it. A service group shuts its services down one at a time,
/// the last one first. The client is therefore connected until the services after it have ended, and they can make
/// calls during their shutdown. When the client closes, calls in flight and later calls fail with `closed`, and streams
/// of snapshots end with that error.
public struct LarderService: Service {
    private let client: LarderClient

    /// Creates the service of a client.
    /// - Parameter client: the client to run. Do not call its `run()` elsewhere.
    public init(_ client: LarderClient) { self.client = client }

    /// Keeps the client connected until the task is cancelled or the graceful shutdown of the service begins, then
    /// closes the client. A service group calls this method.
    /// - Throws: the errors of `LarderClient.run()`: `LarderClientError` with `alreadyRunning`, `closed` or
    ///   `invalidArgument`.
    public func run() async throws {
        try await cancelWhenGracefulShutdown { [client] in try await client.run() }
    }
}
