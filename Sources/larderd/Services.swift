import LarderConfig
import LarderImages
import LarderServer
import Logging
import ServiceLifecycle
import Systemd
import UnixSignals

/// Accepts and serves connections, and keeps the namespaces fresh meanwhile.
struct ServingService: Service {
    let server: AgentServer
    let namespaces: ConfigNamespaces

    func run() async throws {
        let notifier = ServiceNotifier()
        try await withGracefulShutdownHandler {
            try await cancelWhenGracefulShutdown {
                try await server.run {
                    namespaces.start()
                    _ = try? notifier.ready(status: "Serving \(namespaces.all.count) namespaces")
                    CodePages.giveBack()
                }
            }
        } onGracefulShutdown: {
            _ = try? notifier.stopping()
        }
    }
}

/// Does what the image cache does in the background, and puts it away at the end.
struct ImageCacheService: Service {
    let images: ImageService

    func run() async {
        await cancelWhenGracefulShutdown { await images.cache.run() }
        await images.cache.stop()
    }
}

/// Keeps the plain copies of the snapshots.
struct CopyService: Service {
    let copies: CurrentCopies

    func run() async {
        await cancelWhenGracefulShutdown { await copies.run() }
    }
}

/// Re-reads the settings on SIGHUP. Settings that are wrong are refused, and those in force stay.
struct ReloadService: Service {
    let context: ServerContext
    let plan: AgentPlan
    let hangups: UnixSignalsSequence
    let logger: Logger

    func run() async throws {
        var inForce = plan
        for await _ in hangups.cancelOnGracefulShutdown() {
            let notifier = ServiceNotifier()
            _ = try? notifier.reloading()
            do {
                let next = try plan.reread()
                warnOfRestart(inForce, next)
                try await updateImages(next)
                context.limits = next.limits
                await context.namespaces.apply(next.namespaces)
                context.copies?.follow(context.namespaces.all)
                inForce = next
                logger.notice("settings re-read", metadata: ["settings": "\(next.settingsPath ?? "none")"])
                _ = try? notifier.ready(status: "Serving \(context.namespaces.all.count) namespaces")
            } catch {
                logger.error("the new settings are wrong and were refused", metadata: ["error": "\(error)"])
                _ = try? notifier.ready(status: "Serving with the former settings; the new ones are wrong: \(error)")
            }
        }
    }

    private func updateImages(_ plan: AgentPlan) async throws {
        guard let images = context.images else { return }
        let settings = plan.settings.images
        await images.update(
            try settings.cacheSettings(directory: images.directory, logger: logger),
            leaseSeconds: settings.leaseSeconds)
    }

    private func warnOfRestart(_ old: AgentPlan, _ new: AgentPlan) {
        var members: [String] = []
        if old.settings.socket != new.settings.socket { members.append("socket") }
        if old.stateDirectory != new.stateDirectory { members.append("state.directory") }
        if old.settings.cacheDirectory != new.settings.cacheDirectory { members.append("cache.directory") }
        if old.settings.images.isEnabled != new.settings.images.isEnabled { members.append("images.enabled") }
        if old.logLevel != new.logLevel { members.append("log.level") }
        if old.settings.current != new.settings.current { members.append("current") }
        if members.isEmpty { return }
        logger.warning(
            "some changed settings take effect at the next start only",
            metadata: ["settings": "\(members.joined(separator: ", "))"])
    }
}
