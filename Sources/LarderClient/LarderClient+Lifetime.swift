extension LarderClient {
    /// Connects, runs `body` and closes the connection.
    ///
    /// ```swift
    /// try await LarderClient.withConnection(socket: "/run/larder/larder.sock") { client in
    ///     try await client.config.set("search.limit", to: 25, ttl: .seconds(600))
    /// }
    /// ```
    /// - Parameters:
    ///   - socket: the path of the agent socket; nil for ``LarderSocket/defaultPath``.
    ///   - configuration: timeouts and limits of the client.
    ///   - body: uses the client. The client is closed when `body` returns or throws.
    /// - Returns: the result of `body`.
    /// - Throws: ``LarderClientError`` with `unreachable` if the connection cannot be made, and the errors of `body`.
    public static func withConnection<Result>(
        socket: String? = nil, configuration: Configuration = Configuration(),
        _ body: (LarderClient) async throws -> Result
    ) async throws -> Result {
        let client = LarderClient(socket: socket, configuration: configuration)
        defer { client.slot.close() }
        _ = try await client.slot.connection()
        return try await body(client)
    }

    /// Keeps the client connected until the task is cancelled, then closes the client. Long-running services use this
    /// method.
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
    /// If the connection breaks, the client reconnects after a random delay (``Configuration/backoff``). Calls do not
    /// wait for that delay, nor for `run()` to start: a call that finds no connection makes one. After `run()` returns,
    /// every call fails with `closed`.
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
