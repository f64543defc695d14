/// The local process that made a change, as the kernel and `/proc` identified the process when it connected.
package struct Peer: Sendable, Hashable {
    /// Process ID; 0 if the kernel does not provide it.
    package var pid: Int
    /// Effective user ID.
    package var uid: Int
    /// The process name, at most 15 bytes (`comm` in proc(5)); empty if it could not be read.
    package var command: String
    /// The user who logged in (`loginuid` in proc(5)), which sudo(8) does not change; nil if unset or not read.
    package var loginUID: Int?

    package init(pid: Int, uid: Int, command: String, loginUID: Int? = nil) {
        self.pid = pid
        self.uid = uid
        self.command = command
        self.loginUID = loginUID
    }
}
