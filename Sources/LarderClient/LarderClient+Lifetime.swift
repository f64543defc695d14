extension LarderClient {
    /// Connects, runs `body` and closes the connection.
    ///
    /// ```swift
    /// try await LarderClient.withConnection(socket: "/run/larder/larder.sock") { client in
    ///     try await client.config.set("search.limit", to: 25, ttl: .seconds(600))
    /// }
    /// ```
    /// - Parameters:
    ///   - socket: the path of the agent's socket; nil for ``LarderSocket/defaultPath``.
    ///   - body: what to do; the client is closed when it returns, throws or is cancelled.
    /// - Throws: ``LarderClientError`` with `unreachable` where nobody answers at the socket, and what `body` throws.
    public static func withConnection<Result>(
        socket: String? = nil, configuration: Configuration = Configuration(),
        _ body: (LarderClient) async throws -> Result
    ) async throws -> Result {
        let client = LarderClient(socket: socket, configuration: configuration)
        defer { client.slot.close() }
        _ = try await client.slot.connection()
        return try await body(client)
    }

    /// Keeps the client connected until the task is cancelled, then closes it: the form for services.
    ///
    /// ```swift
    /// let client = LarderClient()
    /// try await withThrowingTaskGroup { group in
    ///     group.addTask { await client.run() }
    ///     group.addTask {
    ///         for try await snapshot in client.config.snapshots(at: "search") {
    ///             print("revision \(snapshot.revision)")
    ///         }
    ///     }
    ///     try await group.next()
    ///     group.cancelAll()
    /// }
    /// ```
    ///
    /// A connection that breaks is made again, after a delay with full jitter. Calls need not wait for that, nor for
    /// `run()` to begin: one that finds no connection makes it. After the end of `run()` every call fails with `closed`.
    public func run() async {
        defer { slot.close() }
        var failures = 0
        while !Task.isCancelled {
            let age = configuration.clock.stopwatch()
            if let connection = try? await slot.connection() {
                await connection.waitUntilClosed()
                if age() > configuration.backoff.cap { failures = 0 }
            }
            try? await configuration.clock.sleep(for: configuration.backoff.delay(beforeAttempt: failures))
            failures += 1
        }
    }
}
