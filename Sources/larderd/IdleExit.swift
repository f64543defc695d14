import Logging
import ServiceLifecycle

/// Exits an idle agent: when no client has been connected for the idle timeout and no work is due within the same time
/// from now. When this service returns, the service group shuts down. systemd keeps the socket open and starts the agent
/// again for the next client.
struct IdleExit: AgentService {
    /// The time without a connection after which the agent exits.
    let idleTimeout: Duration
    /// Returns how long no client has been connected; nil while a client is connected. Clients that only monitor the agent
    /// do not count.
    let idleTime: @Sendable () async -> Duration?
    /// Describes the work that is due within the given time; nil if none is due.
    let work: @Sendable (_ within: Duration) async -> String?
    /// Stops accepting connections unless a client is connected. Returns true if it stopped. Later clients wait in the
    /// backlog of the socket for the next agent.
    let stopAccepting: @Sendable () async -> Bool
    let clock: any Clock<Duration>
    let logger: Logger

    /// The time until the next check if the agent cannot exit, because work is due or a client has connected.
    static let pause = Duration.seconds(60)

    func run() async { await cancelWhenGracefulShutdown { await wait() } }

    /// Returns when the agent should exit, or when the task is cancelled.
    func wait() async {
        var logged: String?
        while !Task.isCancelled {
            var pause = idleTimeout
            let idle = await idleTime()
            if let idle, idle < idleTimeout {
                pause = idleTimeout - idle
            } else if idle != nil {
                let work = await work(idleTimeout)
                if work == nil, await stopAccepting() {
                    return logger.notice(
                        """
                        no client was connected for \(idleTimeout.components.seconds / 60) min and no work is due; the \
                        agent exits, and the socket starts it for the next client
                        """)
                }
                if let work, work != logged {
                    logger.info("no client is connected, but the agent keeps running: \(work)")
                    logged = work
                }
                pause = Self.pause
            }
            do { try await clock.sleep(for: pause) } catch { return }
        }
    }
}
