import CLinuxShims
import Glibc
import LarderConfig
import LarderImages
import LarderJSON
import LarderPlatform
import LarderServer
import LarderSettings
import LarderSystemd
import Logging
import ServiceLifecycle
import UnixSignals

/// A service that runs as long as the agent.
///
/// Its description is the name of its type. ServiceGroup formats a description of each service. The default description
/// would include everything that the service references, which takes longer than starting the service.
protocol AgentService: Service, CustomStringConvertible {}

extension AgentService {
    var description: String { "\(Self.self)" }
}

/// Serves connections and keeps the namespaces up to date.
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

/// Runs the background work of the image cache, and stops the cache at shutdown.
struct ImageCacheService: AgentService {
    let images: ImageService

    func run() async {
        await cancelWhenGracefulShutdown { await images.cache.run() }
        // A cache whose index cannot be read has no background work, but the agent runs on.
        try? await gracefulShutdown()
        await images.cache.stop()
    }
}

struct CopyService: AgentService {
    let copies: SnapshotExporter

    func run() async {
        await cancelWhenGracefulShutdown { await copies.run() }
    }
}

/// Reports the state of the host if the settings request it.
struct ReportingService: AgentService {
    let reporter: Reporter

    func run() async {
        await cancelWhenGracefulShutdown { await reporter.run() }
    }
}

/// Periodically returns free memory to the system. Without this service, glibc would return only memory at the end of
/// an arena (malloc_trim(3)).
struct MemoryService: AgentService {
    var interval = Duration.seconds(10)
    var trim: @Sendable () -> Void = { larder_trim_memory() }

    func run() async {
        await cancelWhenGracefulShutdown {
            while (try? await Task.sleep(for: interval, tolerance: interval / 2)) != nil { trim() }
        }
    }
}

/// Reads the settings again on SIGHUP. If they are invalid, the current settings stay in effect.
struct ReloadService: AgentService {
    let context: ServerContext
    let server: AgentServer
    let plan: AgentPlan
    let status: ServiceStatus
    /// Whether the agent serves the whole host, not a single user.
    let isForHost: Bool
    let reporter: Reporter
    let hangups: UnixSignalsSequence
    let blocking: BlockingThreadPool
    let logger: Logger

    func run() async throws {
        var inForce = plan
        let saver = SettingsSaver(logger: logger) { [context] in context.note(savingProblem: $0) }
        var retry = await saver.save { [blocking, plan] in try await blocking.run { try plan.save() } }
        for await _ in hangups.cancelOnGracefulShutdown() {
            _ = try? ServiceNotifier().reloading()
            do {
                let next = try inForce.reread()
                try next.checkDescriptors()
                warnOfRestart(inForce, next)
                if next.limits != inForce.limits { next.warnOfDescriptorLimit(logger) }
                if let images = context.images {
                    let settings = next.settings.images
                    await images.update(
                        try settings.cacheSettings(directory: images.directory, logger: logger),
                        leaseSeconds: settings.leaseSeconds)
                }
                context.limits = next.limits
                let rules = next.settings.accessRules(isForHost: isForHost, logger: logger)
                // The new access rules apply before new namespaces are added, so that no namespace exists without its
                // rules. For the same reason, the rules of a namespace stay until the namespace is removed.
                await server.use(rules.keepingNamespaces(of: context.rules))
                await context.copies?.use(context.rules)
                await context.namespaces.apply(next.namespaces)
                await server.use(rules)
                await context.copies?.use(rules)
                // An earlier retry must not report its problem as one of the new settings.
                retry?.cancel()
                await retry?.value
                Process.startLogging(level: next.logLevel)
                context.settings = next.settingsSource
                inForce = next
                logger.notice("settings reloaded", metadata: ["settings": "\(next.settingsPath ?? "none")"])
                status.follow(context.namespaces.all.map(\.publication))
                status.note(nil)
                await reporter.use(next.settings.report)
                retry = await saver.save { [blocking] in try await blocking.run { try next.save() } }
            } catch {
                logger.error(
                    "the new settings are invalid, so the previous ones stay in effect: \(error)",
                    metadata: ["error": "\(error)"])
                context.note(settingsProblem: "\(error)")
                status.note(.init(problem: "\(error)", readAt: inForce.settingsReadAt))
            }
            status.becomeReady()
        }
        retry?.cancel()
        await retry?.value
    }

    private func warnOfRestart(_ old: AgentPlan, _ new: AgentPlan) {
        var members: [String] = []
        if old.settings.socket != new.settings.socket { members.append("socket") }
        if !old.stateDirectory.isSpelled(as: new.stateDirectory) { members.append("state.directory") }
        if !old.settings.cacheDirectory.isSpelled(as: new.settings.cacheDirectory) { members.append("cache.directory") }
        if old.settings.images.isEnabled != new.settings.images.isEnabled { members.append("images.enabled") }
        if old.settings.current != new.settings.current { members.append("current") }
        if old.settings.service != new.settings.service { members.append("service") }
        if members.isEmpty { return }
        logger.warning(
            "these changed settings take effect only after a restart: \(members.joined(separator: ", "))",
            metadata: ["settings": "\(members.joined(separator: ", "))"])
    }
}

/// The pages of machine code that are mapped into this process.
enum CodePages {
    /// Releases all code pages. Pages that are used again are mapped from the page cache, which takes less than a
    /// millisecond in total. The other pages were only needed at the start, to parse the command line, read the
    /// settings and open the state directory.
    ///
    /// Data is not released: relocated data differs from the file, so it would be lost (madvise(2), MADV_DONTNEED).
    static func release() {
        for range in ranges(ofMaps: maps()) {
            // madvise fails only for a range that is no longer mapped.
            madvise(UnsafeMutableRawPointer(bitPattern: range.lowerBound), range.count, MADV_DONTNEED)
        }
    }

    /// Parses `/proc/PID/maps` (proc(5)) and returns the ranges of mapped code: `START-END r-xp OFFSET DEVICE INODE
    /// PATH`.
    static func ranges(ofMaps text: String) -> [Range<UInt>] {
        text.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ", maxSplits: 5, omittingEmptySubsequences: true)
            guard fields.count == 6, fields[1] == "r-xp", fields[5].drop(while: { $0 == " " }).hasPrefix("/")
            else { return nil }
            let ends = fields[0].split(separator: "-")
            guard ends.count == 2, let start = UInt(ends[0], radix: 16), let end = UInt(ends[1], radix: 16),
                start < end
            else { return nil }
            return start..<end
        }
    }

    private static func maps() -> String {
        let file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        return String(decoding: (try? readAll(from: file)) ?? [], as: UTF8.self)
    }
}
