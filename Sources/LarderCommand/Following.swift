import LarderClient

extension LarderClient {
    /// Hands each snapshot of a part of the configuration to `body`, for as long as the task lives. What interrupts it
    /// is noted on standard error.
    ///
    /// A namespace that leaves the settings after the first snapshot, or that they do not let this user read any more, is
    /// asked for until it is back: settings may be replaced in two steps, or by mistake, and whoever stays must not be left
    /// without changes for that.
    /// - Throws: ``LarderClientError`` where no further attempt can help, such as a namespace that is not declared, or may
    ///   not be read, from the start; what `body` throws.
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
            } catch let error as LarderClientError where hasBegun && error.isWithdrawal {
                notes.withdrawn(namespace, error)
                try await configuration.clock.sleep(for: configuration.backoff.delay(beforeAttempt: attempt))
                attempt += 1
            }
        }
    }
}

extension LarderClientError {
    /// Whether it says that the settings have no such namespace, or none for this user. Who may not know which namespaces
    /// there are hears the latter of both.
    fileprivate var isWithdrawal: Bool {
        guard let remoteError else { return false }
        return remoteError.code == .unknownNamespace || (remoteError.code == .denied && remoteError.right == .read)
    }
}

extension LarderClient {
    /// Tells the agent that a snapshot is in use here, or why it is not. That is only for people to see: nothing depends
    /// on it, and an agent that does not know the method is as good as any.
    func acknowledge(_ snapshot: ConfigSnapshot, _ failure: Failure?) async {
        // One that is cut within a character ends with a replacement character, of three bytes.
        let longest = ConfigAcknowledge.Parameters.longestReason - 3
        let reason = failure.map { String(decoding: $0.message.utf8.prefix(longest), as: UTF8.self) }
        try? await config.acknowledge(snapshot, accepted: failure == nil, reason: reason)
    }
}
