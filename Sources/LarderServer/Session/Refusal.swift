import CLinuxShims
import JSON
import LarderWire
import Glibc

/// A connection that is one too many: it is told why, and closed.
enum Refusal {
    /// Refuses a connection because there are as many as there may be.
    static func tell(_ socket: CInt, of limits: LimitSettings) {
        tell(
            socket,
            WireError(
                .limitExceeded,
                "the agent has \(limits.connections) connections, its limit; close some, or raise "
                    + (limits.isBoundByDescriptors
                        ? "the limit of open files that it runs with (LimitNOFILE= of its service, ulimit -n)"
                        : "limits.connections")))
    }

    /// Refuses a connection.
    static func tell(_ socket: CInt, _ error: WireError) {
        var writer = JSONWriter()
        Envelope.writeError(id: .null, error, to: &writer)
        writer.endLine()
        // A new socket takes a line. Who is gone already need not be told.
        _ = writer.bytes.withUnsafeBytes { larder_send_nosignal(socket, $0.baseAddress, $0.count) }
        close(socket)
    }
}
