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
