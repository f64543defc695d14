import CLinuxShims
import Glibc
import LarderClientCore
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
        /// How the service ended before systemd restarted it last; nil if systemd did not restart it in the last day, or if
        /// the journal cannot be read.
        var lastFailure: String?

        /// Whether systemd had to restart the service in the last day. systemd resets the number of restarts only at a
        /// manual start, but an old crash needs no attention.
        var hasRestarted: Bool { service.restarts > 0 && service.activeTime ?? .zero < .seconds(86_400) }

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
    /// - Parameter readsJournal: whether to find out how the service failed last
    static func probe(for socket: SocketFacts, readsJournal: Bool = true) async -> ServiceFacts {
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
        var units = Units(
            isUser: isUser, isRoot: geteuid() == 0,
            service: UnitFacts(printed: service.text, uptime: .seconds(time.tv_sec)),
            socket: UnitFacts(printed: listener.text))
        guard !units.service.loadState.isEmpty, !units.socket.loadState.isEmpty else {
            return .unknown("the output of systemctl is incomplete")
        }
        if readsJournal, units.hasRestarted { units.lastFailure = await lastFailure(isUser: isUser) }
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

    /// How the main process of the service failed last; nil if there is no journal or it cannot be read. The properties of
    /// a service that is running again no longer show it.
    private static func lastFailure(isUser: Bool) async -> String? {
        // systemd logs this message when a process of a unit has ended.
        let message = "MESSAGE_ID=98e322203f7a4ed290d09fe03c09fe15"
        let words = ["journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=20"]
        let unit = [isUser ? "--user-unit=larder.service" : "--unit=larder.service", message]
        guard let journal = await CapturedProgram.run(words + unit), journal.end == .exited(0) else { return nil }
        return journal.lines.lazy.reversed().compactMap(failure(inMessage:)).first
    }

    /// Parses a message such as `larder.service: Main process exited, code=killed, status=11/SEGV`; nil if it is another
    /// one.
    static func failure(inMessage line: String) -> String? {
        let parts = line.split(separator: "Main process exited, code=", maxSplits: 1)
        let words = parts.last?.split(separator: ", status=") ?? []
        guard parts.count == 2, words.count == 2, let number = words[1].split(separator: "/").first else { return nil }
        if words[0] == "exited" { return "it exited with status \(number)" }
        let name = words[1].dropFirst(number.count + 1)
        return "it was killed by signal \(number)" + (name.isEmpty ? "" : " (SIG\(name))")
    }

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

/// The properties of a unit, parsed from `systemctl show`, which prints a line `Property=Value` for each.
struct UnitFacts: Sendable, Equatable {
    private let properties: [String: String]

    static let queriedProperties = [
        "LoadState", "LoadError", "ActiveState", "SubState", "Result", "UnitFileState", "NRestarts", "ExecMainStatus",
        "WatchdogUSec", "Listen", "User", "ActiveEnterTimestampMonotonic",
    ]

    /// How long the unit has been active; nil if it is not, or if that is not known.
    private(set) var activeTime: Duration?

    /// Parses the output of systemctl.
    /// - Parameter uptime: the time of CLOCK_MONOTONIC when systemctl printed it; nil if unknown
    init(printed text: String, uptime: Duration? = nil) {
        properties = Dictionary(
            text.split(separator: "\n").compactMap { line in
                guard let equals = line.firstIndex(of: "=") else { return nil }
                return (String(line[..<equals]), String(line[line.index(after: equals)...]))
            }
        ) { "\($0) \($1)" }
        let microseconds = properties["ActiveEnterTimestampMonotonic"].flatMap(Int64.init) ?? 0
        guard let uptime, activeState == "active", microseconds > 0 else { return }
        activeTime = max(.zero, uptime - .microseconds(microseconds))
    }

    /// The load state of the unit file: `loaded`, `not-found`, `masked`, `bad-setting`, `error`, …; empty if unknown.
    var loadState: String { properties["LoadState"] ?? "" }
    var isAbsent: Bool { loadState == "not-found" }
    /// Whether the unit exists and is valid.
    var isLoaded: Bool { loadState == "loaded" || loadState == "merged" }
    /// Whether the unit was disabled with `systemctl mask`.
    var isMasked: Bool { loadState == "masked" }
    /// Why systemd cannot load the unit; nil if systemd gives no reason. systemctl prints a D-Bus error name, followed
    /// by this text in quotation marks.
    var loadError: String? {
        guard let error = properties["LoadError"], let quote = error.firstIndex(of: "\"") else { return nil }
        let text = error[quote...].dropFirst()
        return text.isEmpty ? nil : String(text.hasSuffix("\"") ? text.dropLast() : text)
    }
    /// The state of the unit: `active`, `inactive`, `failed`, `activating`, …
    var activeState: String { properties["ActiveState"] ?? "unknown" }
    /// The detailed state of the unit: `running`, `listening`, `auto-restart`, …
    var subState: String { properties["SubState"] ?? "" }
    /// Both, for people: `active (running)`.
    var state: String { activeState + (subState.isEmpty ? "" : " (\(subState))") }
    /// Whether the unit is running, listening, starting or stopping.
    var isUp: Bool { !["inactive", "failed", "unknown"].contains(activeState) }
    /// The result of the last run: `success`, `exit-code`, `watchdog`, …
    var result: String { properties["Result"] ?? "" }
    /// The exit status of the main process, or the number of the signal that ended it.
    var exitStatus: Int { properties["ExecMainStatus"].flatMap(Int.init) ?? 0 }
    /// The user that the service runs as; nil for root.
    var user: String? { properties["User"].flatMap { $0.isEmpty ? nil : $0 } }
    /// The number of automatic restarts of the service.
    var restarts: Int { properties["NRestarts"].flatMap(Int.init) ?? 0 }
    /// Whether the unit is disabled, so that it is not started at boot.
    var isDisabled: Bool { properties["UnitFileState"] == "disabled" }
    /// Whether the unit listens on a path: `Listen=/run/larder/larder.sock (Stream)`.
    func listens(on path: String) -> Bool {
        properties["Listen"]?.split(separator: " ").contains { $0 == path } ?? false
    }
    /// Whether the service has a watchdog.
    var hasWatchdog: Bool {
        let interval = properties["WatchdogUSec"] ?? "0"
        return interval != "0" && interval != "infinity"
    }
}

/// How a program ended, and its output.
struct CapturedProgram: Sendable {
    let end: ProgramEnd
    /// Standard output and standard error, in the order in which they were written.
    let text: String

    /// The lines of the output that are not empty.
    var lines: [String] { text.split(separator: "\n").map(String.init) }

    /// The maximum length of the output in bytes.
    private static let maxBytes = 1 << 20

    /// Runs a program in the C locale, so that its output can be parsed.
    /// - Parameters:
    ///   - limit: the time after which the program is killed.
    ///   - environment: variables that replace those of this process.
    /// - Returns: nil if the program cannot be started, took too long, or wrote more than ``maxBytes``.
    static func run(
        _ words: [String], limit: Duration = .seconds(5), environment: [String: String] = [:]
    ) async -> CapturedProgram? {
        var variables = EnvironmentVariables()
        for (name, value) in environment { variables.append(name, value) }
        for (name, value) in [("LC_ALL", "C.UTF-8"), ("SYSTEMD_COLORS", "0"), ("SYSTEMD_PAGER", "")] {
            variables.append(name, value)
        }
        let program = Program(words: words, variables: variables)
        return await onOwnThread { capture(program, limit) }
    }

    private static func capture(_ program: Program, _ limit: Duration) -> CapturedProgram? {
        var ends: [CInt] = [0, 0]
        // The pipe is close-on-exec, so that no other child inherits its write end. Reading from the pipe then reaches
        // the end of input when this child ends.
        guard larder_pipe(&ends, false) == 0 else { return nil }
        defer { close(ends[0]) }
        let child = try? program.start(in: .shared, output: ends[1], errors: ends[1])
        close(ends[1])
        guard let child else { return nil }
        let text = read(ends[0], until: ContinuousClock.now + limit)
        if text == nil { kill(child, SIGKILL) }
        var status: CInt = 0
        var ended: pid_t
        repeat { ended = waitpid(child, &status, 0) } while ended < 0 && errno == EINTR
        guard let text, ended == child else { return nil }
        return CapturedProgram(end: ProgramEnd(waitStatus: status), text: text)
    }

    /// Reads until the end of input. Returns nil if the input does not end in time or is longer than ``maxBytes``.
    private static func read(_ descriptor: CInt, until end: ContinuousClock.Instant) -> String? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 14)
        while bytes.count <= maxBytes {
            let left = ContinuousClock.now.duration(to: end).components
            let milliseconds = left.seconds * 1000 + left.attoseconds / 1_000_000_000_000_000
            var input = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let ready = poll(&input, 1, CInt(clamping: max(0, milliseconds)))
            if ready < 0, errno == EINTR { continue }
            guard ready > 0 else { return nil }
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            if count <= 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += piece[..<count]
        }
        return nil
    }
}
