import LarderConfig
import LarderImages
import LarderServer
import Logging
import ServiceLifecycle

/// Decides when an agent that nobody needs ends: nobody was connected for a time, and nothing is due within the same time
/// from now.
struct IdleExit: Sendable {
    /// How long nobody must have been connected.
    let patience: Duration
    /// How long nobody has been connected; nil while somebody is.
    let idleTime: @Sendable () -> Duration?
    /// What the agent has to do within a time, in words; nil where that is nothing.
    let work: @Sendable (_ within: Duration) async -> String?
    /// Accepts no more connections, unless somebody is connected. Answers whether nobody is: who connects from then on is
    /// kept waiting for the next agent.
    let stopAccepting: @Sendable () async -> Bool
    let clock: any Clock<Duration>
    let logger: Logger

    /// An agent with work to do is looked at again after this.
    static let pause = Duration.seconds(60)

    /// Returns when the agent is to end, or its task is cancelled.
    func wait() async {
        var told: String?
        while !Task.isCancelled {
            var pause = patience
            if let idle = idleTime(), idle < patience {
                pause = patience - idle
            } else if idleTime() != nil {
                let work = await work(patience)
                if work == nil, await stopAccepting() {
                    return logger.notice(
                        """
                        nobody was connected for \(patience.components.seconds / 60) min and nothing is due: the agent \
                        ends, and the socket starts it again
                        """)
                }
                if let work, work != told {
                    logger.info("nobody is connected, but the agent stays: \(work)")
                    told = work
                }
                pause = Self.pause
            }
            do { try await clock.sleep(for: pause) } catch { return }
        }
    }
}

/// Ends the agent when nobody needs it: a service that returns stops the group. The socket is systemd's, and the next client
/// starts the agent again.
struct IdleExitService: AgentService {
    let patience: Duration
    let server: AgentServer
    let namespaces: ConfigNamespaces
    let images: ImageService?
    let logger: Logger

    func run() async {
        let (server, namespaces, images) = (server, namespaces, images)
        let idleExit = IdleExit(
            patience: patience, idleTime: { server.idleTime },
            work: { within in
                for namespace in namespaces.all {
                    if let work = await namespace.pendingWork(within: within) {
                        return "namespace \(namespace.name) \(work)"
                    }
                }
                return await images?.cache.isAtWork == true ? "images are being fetched or removed" : nil
            }, stopAccepting: { await server.stopAcceptingIfIdle() }, clock: ContinuousClock(), logger: logger)
        await cancelWhenGracefulShutdown { await idleExit.wait() }
    }
}
