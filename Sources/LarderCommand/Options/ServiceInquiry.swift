import LarderClientCore

/// Asks systemd whether an agent that does not reply to a call can still do so. All verbs use it, through
/// ``ConnectionOptions/withClient(maximumReplyBytes:reading:_:)``: systemd accepts connections while the agent does not
/// run, so that a call would otherwise wait for its whole timeout.
struct ServiceInquiry {
    /// How long a call waits for a reply before systemd is asked for the first time.
    static let patience = Duration.seconds(2)
    /// The maximum pause between two inquiries.
    private static let maxInterval = Duration.seconds(60)

    /// The command that shows the cause and the remedy.
    let doctor: String
    /// Whether a call waits for a reply.
    let isAwaitingReply: () async -> Bool
    let probe: () async -> ServiceFacts
    let sleep: (Duration) async throws -> Void

    /// Interrupts the calls of a client each time systemd reports that the service has failed, or that it was restarted
    /// again since the last inquiry and does not run. The inquiries are at increasing intervals. Returns when the task
    /// is cancelled, and if systemd does not manage the agent.
    /// - Parameter socket: the value of `--socket`
    static func run(for client: LarderClient, socket: String?) async {
        let inquiry = ServiceInquiry(
            doctor: Hints(socket: socket).command("larder doctor"), isAwaitingReply: client.isAwaitingReply
        ) {
            await ServiceFacts.probe(for: SocketFacts(option: socket), readsJournal: false)
        } sleep: {
            try await ContinuousClock().sleep(for: $0)
        }
        await inquiry.run(client.interrupt)
    }

    /// - Parameter interrupt: called with each failure
    func run(_ interrupt: (LarderClientError) -> Void) async {
        var interval = Self.patience
        var restarts: Int?
        while (try? await sleep(interval)) != nil {
            guard await isAwaitingReply() else {
                (interval, restarts) = (Self.patience, nil)
                continue
            }
            let facts = await probe()
            if Task.isCancelled { return }
            if case .unknown = facts { continue }
            guard case .units(let units) = facts else { return }
            // Otherwise the agent that accepted the connection is not the one of the unit.
            if units.socket.isUp {
                let service = units.service
                if service.activeState == "failed" {
                    interrupt(failure("larder.service has failed"))
                } else if service.activeState == "activating", let restarts, service.restarts > restarts {
                    interrupt(failure("systemd has restarted larder.service \(service.restarts) times"))
                }
            }
            if restarts != nil { interval = min(interval * 2, Self.maxInterval) }
            restarts = units.service.restarts
        }
    }

    private func failure(_ reason: String) -> LarderClientError {
        LarderClientError(
            .unreachable, "the agent does not reply: \(reason)", advice: "find the cause with: \(doctor)")
    }
}
