import LarderClient

extension LarderClient {
    /// Hands each snapshot of a part of the configuration to `body`, for as long as the task lives. What interrupts it
    /// is noted on standard error.
    ///
    /// A namespace that leaves the settings after the first snapshot is asked for until it is back: settings may be
    /// replaced in two steps, and whoever stays must not be left without changes for that.
    /// - Throws: ``LarderClientError`` where no further attempt can help, such as a namespace that is not declared from
    ///   the start; what `body` throws.
    func follow(_ source: SelectionOptions, _ body: (ConfigSnapshot) async throws -> Void) async throws {
        let notes = InterruptionNotes()
        let namespace = source.namespace.namespace
        var hasBegun = false
        var attempt = 0
        while true {
            let snapshots = config.snapshots(at: source.text, namespace: namespace) { notes.interrupted($0) }
            do {
                for try await snapshot in snapshots {
                    notes.resumed()
                    hasBegun = true
                    attempt = 0
                    try await body(snapshot)
                }
                return
            } catch let error as LarderClientError where hasBegun && error.remoteError?.code == .unknownNamespace {
                notes.removed(namespace)
                try await configuration.clock.sleep(for: configuration.backoff.delay(beforeAttempt: attempt))
                attempt += 1
            }
        }
    }
}
