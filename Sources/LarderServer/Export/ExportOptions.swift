/// How the agent keeps copies of the current snapshots as files, in `current/` beside the socket.
public struct ExportOptions: Sendable, Equatable {
    /// `current.enabled` of the settings: whether there are any. Default: true.
    public var isEnabled = true
    /// `current.mode`: the permission bits of each copy, in the file an octal number in quotes. The group is the socket's.
    /// Default: "0640".
    public var mode: UInt32 = 0o640

    public init() {}
}
