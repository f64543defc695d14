import LarderClientCore

/// Checks that more clients can connect.
enum DescriptorCheck {
    private static let name = "clients"
    /// If the agent may open fewer files than this, the check reports a warning, because each client needs an open
    /// file.
    private static let minFiles = 4096

    static func findings(
        _ facts: AgentFacts, openFiles: Int?, _ service: ServiceFacts, _ hints: Hints = Hints()
    ) -> [Finding] {
        let clients = hints.command("larder clients")
        let perUserAdvice = [
            "find the user and the limit in the agent's log, and list the connections: \(clients)",
            "if the load is legitimate, raise that limit in the settings",
        ]
        let limit = facts.info.limits.connections
        let files = openFiles.map { ", \($0) open files allowed" } ?? ""
        guard case .success(let stats) = facts.stats else {
            return [Finding(.ok, name, "at most \(limit) connections\(files)")]
        }
        let traffic = stats.traffic
        let title = "\(traffic.connectionsOpen) of \(limit) connections\(files)"
        let raise =
            "raise limits.connections in the settings, and LimitNOFILE= in the unit if it is the lower limit "
            + "(\(service.editCommand))"
        if traffic.connectionsOpen * 10 > limit * 9 {
            return [
                Finding(
                    .warning, name, "\(title): more than 90 % are in use",
                    advice: ["list the connections: \(clients)", raise])
            ]
        }
        if traffic.connectionsRefused > 0 {
            let refused = Human.count(traffic.connectionsRefused, "client was", "clients were")
            let isPerUser = traffic.refused.connectionsPerUser > 0
            return [
                Finding(
                    .warning, name, "\(title); \(refused) refused since the agent started",
                    advice: isPerUser ? perUserAdvice : [raise])
            ]
        }
        if let perUser = perUser(traffic.refused) {
            return [
                Finding(
                    .warning, name, "\(title); the limits per user refused \(perUser) since the agent started",
                    advice: perUserAdvice)
            ]
        }
        if let openFiles, openFiles < minFiles {
            return [
                Finding(
                    .warning, name, "\(title); the limit of open files is low",
                    advice: ["set LimitNOFILE=65536 in the unit (\(service.editCommand)), or run: ulimit -n 65536"]
                        + service.restartCommands)
            ]
        }
        return [Finding(.ok, name, title)]
    }

    /// For each limit that applies per user, the number of refusals because of that limit, as text; nil if there are
    /// none. Connections are not included, because another finding reports all refused connections.
    private static func perUser(_ refused: AgentStats.Refusals) -> String? {
        let parts = [
            (refused.subscriptions, "subscription", "subscriptions"), (refused.requests, "request", "requests"),
            (refused.queuedBytes, "large request or reply", "large requests and replies"),
            (refused.queuedConnections, "client that did not read", "clients that did not read"),
        ].filter { $0.0 > 0 }.map { Human.count($0.0, $0.1, $0.2) }
        return parts.isEmpty ? nil : parts.joined(separator: ", ")
    }
}
