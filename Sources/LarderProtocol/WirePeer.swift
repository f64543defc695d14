import LarderJSON

/// The local process that a change came from.
public struct WirePeer: Sendable, Hashable {
    /// Process id; 0 where the kernel does not tell.
    public var pid: Int
    /// Effective user id.
    public var uid: Int
    /// The process's short name when it connected; empty where that could not be read.
    public var command: String

    public init(pid: Int, uid: Int, command: String) {
        self.pid = pid
        self.uid = uid
        self.command = command
    }

    init(from reader: MemberReader) throws(WireError) {
        pid = try reader.requiredInt("pid")
        uid = try reader.requiredInt("uid")
        command = try reader.requiredString("command")
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("pid", pid)
        writer.member("uid", uid)
        writer.member("command", command)
        writer.endObject()
    }
}
