/// `current`: plain copies of the current snapshots, in `current/` beside the socket.
public struct CurrentSettings: Sendable, Equatable {
    /// `enabled`: whether there are any. Default: true.
    public var isEnabled = true
    /// `mode`: the permission bits of each copy, in the file an octal number in quotes. The group is the socket's.
    /// Default: "0640".
    public var mode: UInt32 = 0o640

    public init() {}
}

extension CurrentSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["enabled", "mode"])
        isEnabled = try reader.truth("enabled") ?? isEnabled
        mode = try reader.permissions("mode", example: "0640") ?? mode
    }
}
