import Glibc
import LarderClientCore
import LarderServer
import NIOCore
import Synchronization

/// Connects clients to an agent in the same process, and keeps the faults of these connections.
final class Connector: Sendable {
    private struct Link {
        let channel: any Channel
        let handler: NIOLoopBound<FaultHandler>
    }

    private struct State {
        /// The server of new connections; nil while no agent runs.
        var server: EmbeddedServer?
        var faults = TestAgent.Faults()
        /// The connections of clients, by the identity of their handlers.
        var links: [ObjectIdentifier: Link] = [:]
        /// The number of messages that the handlers hold back.
        var heldMessages = 0
        /// The tasks that wait for a number of held messages. They get true when it is reached.
        var waiters: [(messages: Int, wait: AsyncStream<Bool>.Continuation)] = []
    }

    let clock: TestClock
    private let state = Mutex(State())

    /// The time on the clock of the machine after which a call fails, because a test that forgets to advance its clock
    /// would otherwise wait without end.
    private let callLimit: TimeAmount

    /// - Parameter callLimit: by default longer than the pauses of a machine on which many tests run
    init(_ clock: TestClock, callLimit: TimeAmount = .minutes(1)) {
        self.clock = clock
        self.callLimit = callLimit
    }

    /// Connects to the agent.
    /// - Returns: a socket that does not block
    /// - Throws: `ECONNREFUSED` while the agent is unreachable
    func open() throws(LarderSocket.ConnectError) -> CInt {
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw LarderSocket.ConnectError(code: errno) }
        // The server gets the socket under the lock, so that a server that is stopped afterwards also closes this
        // connection.
        let isServed = state.withLock { state in
            guard let server = state.server, !state.faults.isUnreachable else { return false }
            server.serve(ends[1])
            return true
        }
        if isServed { return ends[0] }
        for end in ends { close(end) }
        throw LarderSocket.ConnectError(code: ECONNREFUSED)
    }

    /// Replaces the server of new connections; nil refuses them.
    func use(_ server: EmbeddedServer?) {
        state.withLock { state in
            server?.use(RunningAgent.accessRules(denying: state.faults.deniedRights))
            state.server = server
        }
    }

    /// Closes all connections. Returns once all clients have noticed.
    func disconnect() async {
        let (server, links) = state.withLock { ($0.server, $0.links.values.map(\.channel)) }
        await server?.disconnectAll()
        for channel in links { try? await channel.closeFuture.get() }
    }

    /// Returns once all clients have noticed that a stopped server has closed their connections.
    func waitUntilDisconnected() async {
        for channel in state.withLock({ $0.links.values.map(\.channel) }) { try? await channel.closeFuture.get() }
    }

    /// Calls `action` on an event loop of a client after a time on the clock.
    func schedule(
        _ eventLoop: any EventLoop, _ time: TimeAmount, _ action: @escaping @Sendable () -> Void
    ) -> Scheduled<Void> {
        let deadline = clock.now.advanced(by: .nanoseconds(time.nanoseconds))
        let timer = clock.schedule(action, on: eventLoop, at: deadline, for: self)
        let limit = eventLoop.scheduleTask(in: callLimit) { [clock] in
            var text =
                "LarderTesting: a call has waited for a minute and fails; "
                + "\(clock.hint ?? "the test clock stands still at \(clock.now.offset): call agent.clock.advance(by:)")\n"
            text.withUTF8 { _ = write(STDERR_FILENO, $0.baseAddress, $0.count) }
            timer.cancel()
            action()
        }
        timer.futureResult.whenComplete { _ in limit.cancel() }
        return timer
    }

    // MARK: Faults

    var faults: TestAgent.Faults { state.withLock { $0.faults } }

    /// Changes the faults in one step.
    /// - Parameter change: called while the state is locked
    func changeFaults(_ change: (inout TestAgent.Faults) -> Void) {
        let links = state.withLock { state in
            let before = state.faults
            change(&state.faults)
            // The lock keeps the order of concurrent changes.
            if state.faults.deniedRights != before.deniedRights {
                state.server?.use(RunningAgent.accessRules(denying: state.faults.deniedRights))
            }
            return state.links.values.map { $0 }
        }
        for link in links { link.channel.eventLoop.execute { link.handler.value.faultsChanged() } }
    }

    func add(_ handler: FaultHandler, on channel: any Channel) {
        let link = Link(channel: channel, handler: NIOLoopBound(handler, eventLoop: channel.eventLoop))
        state.withLock { $0.links[ObjectIdentifier(handler)] = link }
    }

    func remove(_ handler: FaultHandler) {
        // Released outside the lock.
        _ = state.withLock { $0.links.removeValue(forKey: ObjectIdentifier(handler)) }
    }

    // MARK: Messages that are held back

    /// Counts messages that a handler holds back, or no longer holds back if the number is negative.
    func countHeld(_ messages: Int) {
        let ready = state.withLock { state in
            state.heldMessages += messages
            let held = state.heldMessages
            defer { state.waiters.removeAll { $0.messages <= held } }
            return state.waiters.filter { $0.messages <= held }
        }
        for waiter in ready { waiter.wait.yield(true) }
    }

    /// Returns once at least `count` messages are held back.
    /// - Throws: `timeout` after the limit; `cancelled` if the task is cancelled
    func waitForHeldMessages(_ count: Int, within limit: Duration) async throws(LarderClientError) {
        try await waitForEvent(within: limit) {
            LarderClientError(
                .timeout,
                "the number of delayed messages is \(state.withLock { $0.heldMessages }), not \(count), after \(limit)",
                advice: "set agent.faults.delay before the call or the change whose message is to be delayed")
        } register: { wait in
            state.withLock { state in
                if state.heldMessages >= count { return true }
                state.waiters.append((count, wait))
                return false
            }
        }
    }
}
