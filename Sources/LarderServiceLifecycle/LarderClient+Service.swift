// `import LarderServiceLifecycle` is enough to write a service group with a client.
@_exported public import LarderClient
@_exported public import ServiceLifecycle

extension LarderClient: Service {
    // @_disfavoredOverload keeps direct calls of `run()` unambiguous for programs that import both modules.

    /// Keeps the client connected until the task is cancelled or the graceful shutdown of the service begins, then
    /// closes the client. A service group calls this method.
    ///
    /// ```swift
    /// import LarderServiceLifecycle
    /// import Logging
    ///
    /// let client = LarderClient()
    /// let follower = ClosureService {
    ///     for try await snapshot in client.config.snapshots(at: "search").cancelOnGracefulShutdown() {
    ///         print("revision \(snapshot.revision)")
    ///     }
    /// }
    /// let group = ServiceGroup(
    ///     services: [client, follower], gracefulShutdownSignals: [.sigterm], logger: Logger(label: "search"))
    /// try await group.run()
    /// ```
    ///
    /// The agent need not run when the group starts. The client connects as soon as it does, and reconnects after each
    /// disconnect. This method never throws.
    ///
    /// **Order.** List the client before the services that use it. A service group shuts its services down one at a
    /// time, the last one first. The client is therefore connected until the services after it have ended, and they
    /// can make calls during their shutdown. When the client closes, calls in flight and later calls fail with
    /// `closed`, and streams of snapshots end with that error.
    ///
    /// A direct call of `client.run()` selects the method of `LarderClient` with the same name, which only ends when
    /// its task is cancelled. A service that runs the client itself calls
    /// `await cancelWhenGracefulShutdown { await client.run() }`.
    @_disfavoredOverload
    public func run() async throws {
        await cancelWhenGracefulShutdown { await self.run() }
    }
}
