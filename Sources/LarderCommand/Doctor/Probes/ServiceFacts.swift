import Glibc
import LarderEncoding

/// The state of the Larder units in systemd.
enum ServiceFacts: Sendable, Equatable {
    /// The service unit, the socket unit, and the service manager that they belong to.
    struct Units: Sendable, Equatable {
        /// Whether the units belong to the service manager of a user instead of the system.
        var isUser: Bool
        /// Whether this process runs as root.
        var isRoot: Bool
        var service: UnitFacts
        var socket: UnitFacts

        /// A systemctl command for the user to run.
        func systemctl(_ words: String) -> String {
            isUser ? "systemctl --user \(words)" : "\(isRoot ? "" : "sudo ")systemctl \(words)"
        }

        /// The commands that unmask the units; empty if none is masked.
        var unmasking: [String] {
            let masked = [("larder.socket", socket), ("larder.service", service)].filter { $0.1.isMasked }.map { $0.0 }
            return masked.isEmpty ? [] : [systemctl("unmask \(masked.joined(separator: " "))")]
        }

        /// The commands that make systemd listen on the socket, also after a boot. systemd refuses to start the socket
        /// of a service that is running.
        var enableSocket: [String] {
            guard service.isUp else { return [systemctl("enable --now larder.socket")] }
            return [systemctl("enable larder.socket"), systemctl("restart larder.socket larder.service")]
        }

        /// The command that shows the log of a unit.
        func journalctl(_ unit: String) -> String {
            isUser ? "journalctl --user -u \(unit) -e" : "\(isRoot ? "" : "sudo ")journalctl -u \(unit) -e"
        }
    }

    /// systemd does not run on this host.
    case absent
    /// systemd is running but did not reply, for this reason.
    case unknown(String)
    case units(Units)
    /// The user chose the socket of an agent that systemd does not manage.
    case another

    /// Whether systemd is running.
    var hasSystemd: Bool { self != .absent }

    /// Whether the service has failed or is about to be restarted after a failure.
    var hasFailed: Bool {
        guard case .units(let units) = self else { return false }
        return units.service.activeState == "failed" || units.service.subState == "auto-restart"
    }

    /// The commands that start the agent.
    func startCommands(_ socket: SocketFacts) -> [String] {
        switch self {
        case .units(let units) where (units.socket.isLoaded || units.socket.isMasked):
            if units.socket.activeState == "active" {
                return units.unmasking + [units.systemctl("restart larder.socket larder.service")]
            }
            return units.unmasking + units.enableSocket
        case .units(let units) where (units.service.isLoaded || units.service.isMasked):
            return units.unmasking + [units.systemctl("start larder.service")]
        default:
            if socket.isNamed { return ["start the agent of this socket: larderd --socket \(socket.path.shellWord)"] }
            return ["start the agent: larderd, or for the whole host: sudo larderd"]
        }
    }

    /// The commands that restart the agent.
    var restartCommands: [String] {
        if case .units(let units) = self, units.service.isLoaded || units.service.isMasked {
            return units.unmasking + [units.systemctl("restart larder.service")]
        }
        return ["restart the agent"]
    }

    /// The command that opens the settings of the unit in an editor. They take effect at the next start.
    var editCommand: String {
        if case .units(let units) = self { return units.systemctl("edit larder.service") }
        return "systemctl edit larder.service"
    }

    /// The commands that make the agent reload its settings.
    /// - Parameter agent: the running agent; nil if none replied
    func reloadCommands(of agent: AgentFacts?) -> [String] {
        if case .units(let units) = self, units.service.isLoaded,
            agent == nil || units.service.isUp || units.socket.isUp
        {
            return [units.systemctl("reload larder.service")]
        }
        return [
            agent?.visiblePID.map { "as the user of the agent or root: kill -HUP \($0)" } ?? "send the agent SIGHUP"
        ]
    }
}

extension ServiceFacts {
    /// Queries systemd. Must be called before the first connection, which would start the service.
    static func probe(for socket: SocketFacts) async -> ServiceFacts {
        let isUser = socket.choice == .user
        guard access("/run/systemd/system", F_OK) == 0 else { return .absent }
        func unit(_ name: String) async -> CapturedProgram? {
            let words = ["systemctl"] + (isUser ? ["--user"] : []) + ["show", name]
            return await CapturedProgram.run(words + UnitFacts.queriedProperties.map { "--property=\($0)" })
        }
        guard let service = await unit("larder.service"), let listener = await unit("larder.socket") else {
            return .unknown("systemctl cannot be run or did not end in time")
        }
        guard service.end == .exited(0), listener.end == .exited(0) else {
            return .unknown(service.lines.last ?? "systemctl ended with \(service.end.text)")
        }
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let units = Units(
            isUser: isUser, isRoot: geteuid() == 0,
            service: UnitFacts(printed: service.text, uptime: .seconds(time.tv_sec)),
            socket: UnitFacts(printed: listener.text))
        guard !units.service.loadState.isEmpty, !units.socket.loadState.isEmpty else {
            return .unknown("the output of systemctl is incomplete")
        }
        return ServiceFacts.units(units).of(socket)
    }

    /// These facts, or ``another`` if the user chose the socket of an agent that systemd does not manage. The units are
    /// then irrelevant.
    func of(_ socket: SocketFacts) -> ServiceFacts {
        guard case .units(let units) = self, socket.isNamed else { return self }
        return units.socket.listens(on: socket.path) ? self : .another
    }

    /// The last `count` lines of a log. Messages in which systemd only reports a failure, without its reason, are
    /// omitted unless there are no other lines.
    static func informative(_ lines: [String], _ count: Int) -> [String] {
        let informative = lines.filter { line in !(line.contains(" systemd[") && phrases.contains { line.contains($0) })
        }
        return Array((informative.isEmpty ? lines : informative).suffix(count))
    }

    /// Messages of systemd that report a failure but not its reason.
    private static let phrases = [
        "Failed to start ", "Stopped ", "Starting ", "Start request repeated", "Failed with result",
        "Scheduled restart job", "Unit cannot be reloaded", "Main process exited",
    ]

    /// The last informative lines of the service's log (see ``informative(_:_:)``); empty if there is no journal or it
    /// cannot be read.
    func log(lines count: Int) async -> [String] {
        guard case .units(let units) = self, !units.service.isAbsent else { return [] }
        let unit = units.isUser ? ["--user-unit", "larder.service"] : ["--unit", "larder.service"]
        let words = ["journalctl", "--quiet", "--no-pager", "--output=short-iso", "--lines=50"] + unit
        guard let journal = await CapturedProgram.run(words), journal.end == .exited(0) else { return [] }
        return Self.informative(journal.lines, count)
    }
}
