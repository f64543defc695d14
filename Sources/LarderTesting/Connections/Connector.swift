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
        /// The tasks that wait for a number of held messages. Their streams finish when it is reached.
        var waiters: [(messages: Int, wait: AsyncStream<Never>.Continuation)] = []
    }

    let clock: TestClock
    private let state = Mutex(State())

    init(_ clock: TestClock) { self.clock = clock }

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
        return clock.schedule(action, on: eventLoop, at: deadline, for: self)
    }

    // MARK: Faults

    var faults: TestAgent.Faults {
        get { state.withLock { $0.faults } }
        set {
            let links = state.withLock { state in
                defer { state.faults = newValue }
                // The lock keeps the order of concurrent changes.
                if state.faults.deniedRights != newValue.deniedRights {
                    state.server?.use(RunningAgent.accessRules(denying: newValue.deniedRights))
                }
                return state.links.values.map { $0 }
            }
            for link in links { link.channel.eventLoop.execute { link.handler.value.faultsChanged() } }
        }
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
        for waiter in ready { waiter.wait.finish() }
    }

    /// Returns once at least `count` messages are held back, or when the task is cancelled.
    func waitForHeldMessages(_ count: Int) async {
        let (end, wait) = AsyncStream.makeStream(of: Never.self)
        let isReached = state.withLock { state in
            if state.heldMessages >= count { return true }
            state.waiters.append((count, wait))
            return false
        }
        if !isReached { for await _ in end {} }
    }
}
