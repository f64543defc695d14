/// A unit as `systemctl show` tells of it: a line `Property=Value` for each property.
struct UnitFacts: Sendable, Equatable {
    private let properties: [String: String]

    static let asked = [
        "LoadState", "LoadError", "ActiveState", "SubState", "Result", "UnitFileState", "NRestarts", "ExecMainStatus",
        "WatchdogUSec", "Listen", "User",
    ]

    /// Reads what systemctl printed.
    init(printed text: String) {
        properties = Dictionary(
            text.split(separator: "\n").compactMap { line in
                guard let equals = line.firstIndex(of: "=") else { return nil }
                return (String(line[..<equals]), String(line[line.index(after: equals)...]))
            }
        ) { "\($0) \($1)" }
    }

    /// How systemd gets on with the unit's file: `loaded`, `not-found`, `masked`, `bad-setting`, `error`, …; empty where it
    /// did not say.
    var loadState: String { properties["LoadState"] ?? "" }
    /// Whether there is no such unit.
    var isAbsent: Bool { loadState == "not-found" }
    /// Whether there is such a unit, and systemd can use it.
    var isLoaded: Bool { loadState == "loaded" || loadState == "merged" }
    /// Whether it was made one that cannot be started: `systemctl mask`.
    var isMasked: Bool { loadState == "masked" }
    /// Why systemd cannot use it; nil where it does not say: it does with a name of D-Bus's before.
    var loadError: String? {
        guard let error = properties["LoadError"], let quote = error.firstIndex(of: "\"") else { return nil }
        let text = error[quote...].dropFirst()
        return text.isEmpty ? nil : String(text.hasSuffix("\"") ? text.dropLast() : text)
    }
    /// `active`, `inactive`, `failed`, `activating`, …
    var activeState: String { properties["ActiveState"] ?? "unknown" }
    /// `running`, `listening`, `auto-restart`, …
    var subState: String { properties["SubState"] ?? "" }
    /// Whether it runs or listens, or is about to.
    var isUp: Bool { !["inactive", "failed", "unknown"].contains(activeState) }
    /// How it ended last: `success`, `exit-code`, `watchdog`, …
    var result: String { properties["Result"] ?? "" }
    /// The exit status, or the number of the signal that ended it.
    var exitStatus: Int { properties["ExecMainStatus"].flatMap(Int.init) ?? 0 }
    /// The user that it runs as; nil where that is root.
    var user: String? { properties["User"].flatMap { $0.isEmpty ? nil : $0 } }
    /// How often systemd started it again by itself.
    var restarts: Int { properties["NRestarts"].flatMap(Int.init) ?? 0 }
    /// Whether it is not started at boot.
    var isDisabled: Bool { properties["UnitFileState"] == "disabled" }
    /// Whether it listens on a path: `Listen=/run/larder/larder.sock (Stream)`.
    func listens(on path: String) -> Bool {
        properties["Listen"]?.split(separator: " ").contains { $0 == path } ?? false
    }
    /// Whether systemd watches it.
    var hasWatchdog: Bool {
        let interval = properties["WatchdogUSec"] ?? "0"
        return interval != "0" && interval != "infinity"
    }
}
