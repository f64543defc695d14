import CLinuxShims
import Glibc
import LarderJSON
import LarderProtocol

/// Refuses connections with an error message.
enum ConnectionRefusal {
    /// Refuses a connection because the maximum number of connections is open.
    static func send(_ socket: CInt, of limits: ConnectionLimits) {
        send(
            socket,
            WireError(
                .limitExceeded,
                "the agent has \(limits.connections) connections and files in transit, the maximum; close some, or raise "
                    + (limits.isBoundByDescriptors
                        ? "its limit of open files (LimitNOFILE= of its service, ulimit -n)"
                        : "limits.connections")))
    }

    /// Refuses a connection.
    static func send(_ socket: CInt, _ error: WireError) {
        var writer = JSONWriter()
        Envelope.writeError(id: .null, error, to: &writer)
        writer.endLine()
        // A new socket has room for a line. The write fails only if the client has disconnected.
        _ = writer.bytes.withUnsafeBytes { larder_send_nosignal(socket, $0.baseAddress, $0.count) }
        close(socket)
    }
}
