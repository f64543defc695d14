import Glibc
import CLinuxShims
import LarderConfig
import LarderImages
import LarderPlatform
import LarderServer
import LarderSettings
import Logging
import ServiceLifecycle
import LarderSystemd
import UnixSignals

/// Accepts and serves connections, and keeps the namespaces fresh meanwhile.
struct ServingService: AgentService {
    let server: AgentServer
    let namespaces: ConfigNamespaces
    let status: ServiceStatus

    func run() async throws {
        try await withGracefulShutdownHandler {
            try await cancelWhenGracefulShutdown {
                try await server.run {
                    namespaces.start()
                    status.becomeReady()
                    CodePages.release()
                }
            }
        } onGracefulShutdown: {
            _ = try? ServiceNotifier().stopping()
        }
    }
}

/// Does what the image cache does in the background, and puts it away at the end.
struct ImageCacheService: AgentService {
    let images: ImageService

    func run() async {
        await cancelWhenGracefulShutdown { await images.cache.run() }
        await images.cache.stop()
    }
}

/// Keeps the plain copies of the snapshots.
struct CopyService: AgentService {
    let copies: SnapshotExporter

    func run() async {
        await cancelWhenGracefulShutdown { await copies.run() }
    }
}

/// Returns free memory to the system at intervals. glibc itself returns only what is free at the end of an arena.
struct MemoryService: AgentService {
    var interval = Duration.seconds(10)
    var trim: @Sendable () -> Void = { larder_trim_memory() }

    func run() async {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: interval, tolerance: interval / 2)) != nil { trim() }
        }
    }
}

/// Re-reads the settings on SIGHUP. Settings that are wrong are refused, and those in force stay.
struct ReloadService: AgentService {
    let context: ServerContext
    let server: AgentServer
    let plan: AgentPlan
    let status: ServiceStatus
    /// Whether the agent serves the host, not one user.
    let isForHost: Bool
    let hangups: UnixSignalsSequence
    let logger: Logger

    func run() async throws {
        var inForce = plan
        for await _ in hangups.cancelOnGracefulShutdown() {
            _ = try? ServiceNotifier().reloading()
            do {
                let next = try inForce.reread()
                warnOfRestart(inForce, next)
                try await updateImages(next)
                context.limits = next.limits
                let rules = next.settings.accessRules(isForHost: isForHost, logger: logger)
                // Before a namespace appears that is not for all, and until one is gone that was not.
                await server.use(rules.keepingNamespaces(of: context.rules))
                await context.copies?.use(context.rules)
                await context.namespaces.apply(next.namespaces)
                await server.use(rules)
                await context.copies?.use(rules)
                context.settings = next.settingsSource
                inForce = next
                logger.notice("settings re-read", metadata: ["settings": "\(next.settingsPath ?? "none")"])
                status.follow(context.namespaces.all)
                status.note(settingsProblem: nil)
            } catch {
                logger.error(
                    "the new settings are wrong and were refused; the previous ones still apply: \(error)",
                    metadata: ["error": "\(error)"])
                status.note(settingsProblem: "\(error)")
            }
            status.becomeReady()
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
        if old.settings.service != new.settings.service { members.append("service") }
        if members.isEmpty { return }
        logger.warning(
            "changed settings that take effect at the next start only: \(members.joined(separator: ", "))",
            metadata: ["settings": "\(members.joined(separator: ", "))"])
    }
}

/// A part of the agent that runs as long as it does.
///
/// Its description is its name. A service group takes one of each of its services, and without this one would go through
/// everything that a service holds, which takes longer than to start it.
protocol AgentService: Service, CustomStringConvertible {}

extension AgentService {
    var description: String { "\(Self.self)" }
}
