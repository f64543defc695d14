import LarderConfig
import LarderServer
import ServiceLifecycle
import Synchronization
import Systemd

/// The line that `systemctl status` shows of the agent.
final class ServiceStatus: Sendable {
    private let namespaces: ConfigNamespaces
    private let server: AgentServer
    private let settingsProblem = Mutex<String?>(nil)

    init(namespaces: ConfigNamespaces, server: AgentServer) {
        self.namespaces = namespaces
        self.server = server
    }

    /// Says why the settings of the last reload are not in force; nil where they are.
    func note(settingsProblem problem: String?) { settingsProblem.withLock { $0 = problem } }

    /// The line as of now.
    var line: String {
        Self.line(
            namespaces.all.map { ($0.name, $0.publication.current.freshness) }, clients: server.connections,
            settingsProblem: settingsProblem.withLock { $0 })
    }

    /// Puts the line together: how many namespaces there are and those that fare worst, how many clients, and what is wrong
    /// with the settings.
    static func line(
        _ namespaces: [(name: String, freshness: Freshness)], clients: Int, settingsProblem: String?
    ) -> String {
        var line = namespaces.count == 1 ? "1 namespace" : "\(namespaces.count) namespaces"
        let worst = namespaces.max { rank($0.freshness) < rank($1.freshness) }?.freshness ?? .fresh
        if rank(worst) == 0 {
            line += ", fresh"
        } else {
            let names = namespaces.filter { $0.freshness == worst }.map(\.name)
            let others = names.count > 3 ? " and \(names.count - 3) others" : ""
            line += ", \(worst.rawValue): \(names.prefix(3).joined(separator: ", "))\(others)"
        }
        line += clients == 1 ? "; 1 client" : "; \(clients) clients"
        if let settingsProblem { line += "; the new settings are wrong, the former are in force: \(settingsProblem)" }
        return line
    }

    /// How bad a state is. One that is being refreshed is as good as it was; nobody needs to act.
    private static func rank(_ freshness: Freshness) -> Int {
        switch freshness {
        case .fresh, .refreshing: 0
        case .initializing: 1
        case .stale: 2
        case .failed: 3
        }
    }
}

/// Keeps the line up to date: tells of a change within ten seconds, and not more often.
struct StatusService: AgentService {
    let status: ServiceStatus

    private static let pause = Duration.seconds(10)

    func run() async {
        let notifier = ServiceNotifier()
        await cancelWhenGracefulShutdown {
            var told = status.line
            while !Task.isCancelled {
                do { try await Task.sleep(for: Self.pause) } catch { return }
                let line = status.line
                if line == told { continue }
                _ = try? notifier.status(line)
                told = line
            }
        }
    }
}
