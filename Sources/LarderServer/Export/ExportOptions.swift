/// How the agent keeps copies of the current snapshots as files, in `current/` beside the socket.
package struct ExportOptions: Sendable, Equatable {
    /// `current.enabled` of the settings: whether there are any. Default: true.
    package var isEnabled = true
    /// `current.mode`: the permission bits of each copy, in the file an octal number in quotes. The group is the socket's.
    /// Default: "0640".
    package var mode: UInt32 = 0o640

    package init() {}
}
