import LarderConfig
import LarderImages
import LarderServer
import Logging
import ServiceLifecycle

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
                    if let work = await namespace.work(within: within) { return "namespace \(namespace.name) \(work)" }
                }
                return await images?.cache.isAtWork == true ? "images are being fetched or removed" : nil
            }, stopAccepting: { await server.stopAcceptingIfIdle() }, clock: ContinuousClock(), logger: logger)
        await cancelWhenGracefulShutdown { await idleExit.wait() }
    }
}
