import LarderClientCore
import LarderEncoding
import LarderProtocol

/// Checks that the agent replies.
enum ConnectionCheck {
    private static let name = "connection"

    /// - Parameter isSocketUsable: whether the check of the socket has found no problem
    static func finding(
        _ agent: AgentReply, _ socket: SocketFacts, _ service: ServiceFacts, _ advice: StartAdvice,
        isSocketUsable: Bool, log: [String]
    ) -> Finding {
        switch agent {
        case .facts(let facts):
            let info = facts.info
            let up = Human.span(milliseconds: info.uptimeMilliseconds)
            let from = info.activated ? ", through a systemd socket" : ""
            return Finding(
                .ok, name,
                "\(info.name) replied in \(milliseconds(facts.roundTrip)) (process \(info.pid), up \(up)\(from))")
        case .failed(let failure):
            return finding(failure, socket, service, advice, isSocketUsable: isSocketUsable, log)
        }
    }

    private static func finding(
        _ failure: AgentReply.Failure, _ socket: SocketFacts, _ service: ServiceFacts, _ advice: StartAdvice,
        isSocketUsable: Bool, _ log: [String]
    ) -> Finding {
        let lines = log.isEmpty || service.hasFailed ? [] : ["last lines of the agent log:"] + log.map { "  \($0)" }
        switch failure.kind {
        case .denied where isSocketUsable:
            return Finding(
                .problem, name, "cannot connect to \(socket.path), although its permissions allow it",
                detail: [failure.reason] + lines,
                advice: ["find the security module, such as SELinux or AppArmor, that denies it: sudo dmesg | tail"])
        case .noSocket where isSocketUsable:
            return Finding(.problem, name, failure.reason, detail: lines, advice: advice.start)
        case .noSocket, .denied:
            return Finding(.skipped, name, "not checked, because the socket cannot be used (see above)", detail: lines)
        case .refused:
            return Finding(
                .problem, name, "no process listens on \(socket.path)",
                detail: ["the agent that created the socket was killed; the next agent replaces the socket"] + lines,
                advice: advice.start)
        case .silent:
            let whom = failure.listener.map { " (\($0))" } ?? ""
            return Finding(
                .problem, name, "a process is listening on \(socket.path)\(whom) but did not reply in time",
                detail: [failure.reason] + lines, advice: advice.restart)
        case .closed:
            return Finding(
                .problem, name, "the connection was closed before the agent replied",
                detail: [failure.reason] + lines,
                advice: ["retry, because the agent may just have been stopped"] + advice.restart)
        case .foreign:
            return Finding(
                .problem, name, "the process on \(socket.path) is not a Larder agent, or has an incompatible version",
                detail: [failure.reason], advice: ["pass the agent's socket: larder doctor --socket PATH"])
        case .withoutSettings:
            return Finding(
                .skipped, name, "not checked, because the agent waits for valid settings (see above)", detail: lines)
        case .other:
            return Finding(.problem, name, failure.reason, detail: lines, advice: advice.start)
        }
    }

    private static func milliseconds(_ duration: Duration) -> String {
        let tenths = duration.wholeNanoseconds / 100_000
        return "\(tenths / 10).\(tenths % 10) ms"
    }
}

/// Checks that more clients can connect.
enum DescriptorCheck {
    private static let name = "clients"
    /// If the agent may open fewer files than this, the check reports a warning, because each client needs an open
    /// file.
    private static let minFiles = 4096

    static func finding(
        _ facts: AgentFacts, openFiles: Int?, _ service: ServiceFacts, _ hints: Hints = Hints()
    ) -> Finding {
        let clients = hints.command("larder clients")
        let perUserAdvice = [
            "find the user and the limit in the agent's log, and list the connections: \(clients)",
            "if the load is legitimate, raise that limit in the settings",
        ]
        let limit = facts.info.limits.connections
        let files = openFiles.map { ", \($0) open files allowed" } ?? ""
        guard case .success(let stats) = facts.stats else {
            return Finding(.ok, name, "at most \(limit) connections\(files)")
        }
        let traffic = stats.traffic
        let title = "\(traffic.connectionsOpen) of \(limit) connections\(files)"
        let raise =
            "raise limits.connections in the settings, and LimitNOFILE= in the unit if it is the lower limit "
            + "(\(service.editCommand))"
        if traffic.connectionsOpen * 10 > limit * 9 {
            return Finding(
                .warning, name, "\(title): more than 90 % are in use",
                advice: ["list the connections: \(clients)", raise])
        }
        if traffic.connectionsRefused > 0 {
            let refused = Human.count(traffic.connectionsRefused, "client was", "clients were")
            let isPerUser = traffic.refused.connectionsPerUser > 0
            return Finding(
                .warning, name, "\(title); \(refused) refused since the agent started",
                advice: isPerUser ? perUserAdvice : [raise])
        }
        if let perUser = perUser(traffic.refused) {
            return Finding(
                .warning, name, "\(title); the limits per user refused \(perUser) since the agent started",
                advice: perUserAdvice)
        }
        if let openFiles, openFiles < minFiles {
            return Finding(
                .warning, name, "\(title); the limit of open files is low",
                advice: ["set LimitNOFILE=65536 in the unit (\(service.editCommand)), or run: ulimit -n 65536"]
                    + service.restartCommands)
        }
        return Finding(.ok, name, title)
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
