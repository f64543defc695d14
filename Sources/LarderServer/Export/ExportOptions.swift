/// The settings for copies of the current snapshots as files, in `current/` next to the socket.
package struct ExportOptions: Sendable, Equatable {
    /// `current.enabled` in the settings: whether copies are kept. Default: true.
    package var isEnabled = true
    /// `current.mode` in the settings: the permission bits of each copy, written as an octal number in quotes. The
    /// copies have the group of the socket. Default: "0640".
    package var mode: UInt32 = 0o640

    package init() {}
}
