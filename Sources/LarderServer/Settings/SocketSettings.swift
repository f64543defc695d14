/// `socket`: where clients connect. None of it applies to a socket that the service manager passed.
public struct SocketSettings: Sendable, Equatable {
    /// The longest path of a socket in bytes: `sun_path` of `unix(7)`, less its final NUL.
    public static let maximumPathBytes = 107

    /// `path`: the socket's absolute path, of at most ``maximumPathBytes`` bytes.
    public var path: String?
    /// `mode`: the permission bits of the socket, in the file an octal number in quotes. Default: "0660".
    public var mode: UInt32 = 0o660
    /// `group`: the group, by name or number, that the socket is given to. Default: that of the process.
    public var group: String?

    public init() {}
}

extension SocketSettings {
    init(_ value: SettingsValue, _ settingsPath: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: settingsPath, knowing: ["path", "mode", "group"])
        path = try reader.path("path", maximumBytes: Self.maximumPathBytes)
        mode = try reader.permissions("mode", example: "0660") ?? mode
        group = try reader.string("group", expected: "the name or number of a group, in quotes") { group in
            !group.isEmpty && !group.unicodeScalars.contains { $0.value <= 0x20 || $0 == ":" || $0.value == 0x7f }
        }
    }
}
