import CLinuxShims
import JSON
import LarderClient
import LarderWire

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// An image's file as the agent passes it, open, with the first byte of a reply (unix(7), `SCM_RIGHTS`): for those who may
/// connect to the agent and not enter the directories of its cache.
///
/// The client library's connection takes no descriptors, so this is one of its own, for one request. It blocks.
struct PassedImage {
    /// The agent's socket.
    let socket: String
    /// What to ask for.
    let parameters: ImageGet.Parameters

    private static let patience = timeval(tv_sec: 30, tv_usec: 0)

    /// Asks for the image and returns its descriptor, which is the caller's to close.
    /// - Throws: ``Failure`` where the agent does not pass it.
    func open() throws(Failure) -> CInt {
        let stream = try connect()
        defer { close(stream) }
        var parameters = parameters
        parameters.delivery = .descriptor
        let request = JSONValue.building { writer in
            writer.beginObject()
            writer.member("id", 1)
            writer.member("method", ImageGet.name)
            writer.name("params")
            parameters.write(to: &writer)
            writer.endObject()
        }
        let line = Array((request.compactText + "\n").utf8)
        let code = line.withUnsafeBytes { Output.writeAll($0, to: stream) }
        guard code == 0 else { throw failure(code) }
        var received = [UInt8](repeating: 0, count: 1 << 16)
        var descriptor: CInt = -1
        var count = 0
        // The descriptor comes with the first byte.
        let bytes = larder_receive_descriptors(stream, &received, received.count, &descriptor, 1, &count)
        guard bytes > 0 else { throw failure(bytes == 0 ? ECONNRESET : errno) }
        if count == 1 { return descriptor }
        let reply = try? JSONValue(parsing: Array(received[..<bytes]))
        guard let error = reply?["error"] else { throw failure(EPROTO) }
        throw Failure(LarderClientError(remote: WireError(from: error)))
    }

    private func connect() throws(Failure) -> CInt {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard socket.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { throw failure(ENAMETOOLONG) }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: socket.utf8) }
        let stream = Glibc.socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard stream >= 0 else { throw failure(errno) }
        var patience = Self.patience
        setsockopt(stream, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(stream, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else {
            defer { close(stream) }
            throw failure(errno)
        }
        return stream
    }

    private func failure(_ code: CInt) -> Failure {
        Failure(.unreachable, "the agent does not pass the image's file: \(String(cString: strerror(code)))")
    }
}
