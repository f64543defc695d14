/// The local process that a change came from, as the kernel and `/proc` knew it when it connected.
package struct Peer: Sendable, Hashable {
    /// Process id; 0 where the kernel does not tell.
    package var pid: Int
    /// Effective user id.
    package var uid: Int
    /// The process's short name, at most 15 bytes (proc(5), `comm`); empty where it could not be read.
    package var command: String

    package init(pid: Int, uid: Int, command: String) {
        self.pid = pid
        self.uid = uid
        self.command = command
    }
}
