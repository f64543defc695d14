import LarderClientCore
import LarderProtocol

extension LarderClient {
    /// Calls `body` with each snapshot of the selected part of the configuration until the task is cancelled. Reports
    /// interruptions on standard error, and that there is no snapshot after two seconds.
    ///
    /// If the namespace is removed from the settings after the first snapshot, or this user loses the right to read it,
    /// the method retries until the namespace is available again. The settings may have been replaced in two steps or
    /// by mistake, which must not end a long-running program.
    /// - Parameter hints: creates the command in the report.
    /// - Throws: ``LarderClientError`` if a retry cannot succeed, for example because the namespace is not declared or
    ///   not readable when the method starts; errors of `body`.
    func follow(
        _ source: SelectionOptions, _ hints: Hints, _ body: (LarderSnapshot) async throws -> Void
    ) async throws {
        let notes = InterruptionNotes()
        let namespace = source.namespace.namespace
        var hasBegun = false
        let wait = Task {
            guard (try? await Task.sleep(for: ServiceInquiry.patience)) != nil else { return }
            Output.note(
                "waiting for the first snapshot of namespace \"\(namespace)\", because the agent or the source of the "
                    + "namespace has not responded yet; find the cause with: \(hints.command("larder doctor"))")
        }
        defer { wait.cancel() }
        let steps = config[namespace].snapshots(at: source.text).makeSteps()
        while let step = try await steps.next() {
            wait.cancel()
            switch step {
            case .snapshot(let snapshot):
                notes.resumed()
                hasBegun = true
                try await body(snapshot)
            case .interruption(let interruption):
                let error = interruption.error
                if error.code == .remote, error.isRefusal {
                    guard hasBegun, error.isWithdrawal else { throw error }
                    notes.withdrawn(namespace, error)
                } else {
                    notes.interrupted(interruption)
                }
            case .failure(let error): throw error
            case .resumption: notes.resumed()
            }
        }
    }
}

extension LarderClientError {
    /// Whether the settings do not declare the namespace, or do not let this user read it. For users who must not learn
    /// which namespaces exist, the agent reports both cases as `denied`.
    fileprivate var isWithdrawal: Bool {
        guard let remoteError else { return false }
        return remoteError.code == .unknownNamespace || (remoteError.code == .denied && remoteError.right == .read)
    }
}

extension LarderClient {
    /// Reports to the agent that this program uses a snapshot or, if there was a failure, why it does not. Errors are
    /// ignored, because the report is only informational and older agents do not have the method.
    func acknowledge(_ snapshot: LarderSnapshot, _ failure: Failure?) async {
        // Leave room for three bytes: if the reason is cut off inside a character, the decoded text ends with a
        // replacement character, which takes three bytes.
        let maxBytes = ConfigAcknowledge.Parameters.longestReason - 3
        let reason = failure.map { String(decoding: $0.message.utf8.prefix(maxBytes), as: UTF8.self) }
        try? await config.acknowledge(snapshot, accepted: failure == nil, reason: reason)
    }
}
