import CLinuxShims
import LarderJSON
import LarderProtocol
import Glibc

/// One request that passes an open file to the agent, or whose reply passes one to the client (unix(7), `SCM_RIGHTS`).
/// It uses a separate connection, because the client's own connection cannot pass descriptors.
struct DescriptorCall: Sendable {
    let transport: Transport
    let configuration: LarderClient.Configuration

    /// Sends a request and waits for its reply. Stops waiting if the task is cancelled.
    /// - Parameter passed: a descriptor to send with the first byte; nil for none. The caller still owns it.
    /// - Returns: the result, and the file that came with it; nil if none did.
    func send<Method: WireMethod>(
        _ method: Method.Type, _ parameters: Method.Parameters, passing passed: CInt? = nil
    ) async throws(LarderClientError) -> (result: Method.Result, file: ReceivedFile?) {
        let stream = try await connect()
        var writer = JSONWriter()
        Envelope.writeRequest(id: RequestID(1), method: Method.name, to: &writer) { parameters.write(to: &$0) }
        writer.endLine()
        let (line, timeout, maxReplyBytes) = (writer.bytes, configuration.timeout, configuration.maximumReplyBytes)
        let outcome = await withTaskCancellationHandler {
            await onOwnThread { () -> Result<(reply: JSONValue, file: ReceivedFile?), LarderClientError> in
                do throws(LarderClientError) {
                    return .success(
                        try stream.exchange(line, passing: passed, timeout: timeout, maxReplyBytes: maxReplyBytes))
                } catch {
                    return .failure(error)
                }
            }
        } onCancel: {
            stream.interrupt()
        }
        if Task.isCancelled { throw .cancelled }
        let (reply, file) = try outcome.get()
        if let error = reply["error"] { throw LarderClientError(remote: WireError(from: error)) }
        guard let result = reply["result"] else {
            throw LarderClientError(.protocolViolation, "the reply has neither result nor error")
        }
        return (try Method.read(result), file)
    }

    private func connect() async throws(LarderClientError) -> DescriptorStream {
        var attempt = 0
        while true {
            do throws(LarderClientError) {
                return try DescriptorStream(connectedBy: transport)
            } catch {
                // EAGAIN means that the accept queue of the socket is full. This is usually temporary, so connecting is
                // retried.
                guard error.systemError == EAGAIN, attempt < ConnectionSlot.maxBusyRetries else { throw error }
            }
            do {
                try await configuration.clock.sleep(for: configuration.backoff.delay(beforeAttempt: attempt))
            } catch {
                throw .cancelled
            }
            attempt += 1
        }
    }
}

/// A file that the agent passed. It is closed when the last reference to this object is released.
final class ReceivedFile: Sendable {
    let descriptor: CInt

    init(_ descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(descriptor) }
}

/// A socket that can receive descriptors. Its methods block.
private final class DescriptorStream: Sendable {
    private let descriptor: CInt

    /// Connects without blocking.
    init(connectedBy transport: Transport) throws(LarderClientError) {
        do throws(LarderSocket.ConnectError) {
            descriptor = try transport.open()
        } catch {
            throw .unreachable(transport.name, errno: error.code)
        }
    }

    deinit { close(descriptor) }

    /// Ends an exchange that runs on another thread. The blocking system calls of the exchange return.
    func interrupt() { shutdown(descriptor, CInt(SHUT_RDWR)) }

    /// Sends a line and waits for the reply.
    func exchange(
        _ line: [UInt8], passing passed: CInt?, timeout: Duration?, maxReplyBytes: Int
    ) throws(LarderClientError) -> (reply: JSONValue, file: ReceivedFile?) {
        let clock = ContinuousClock()
        let end = timeout.map { clock.now + $0 }
        // The line is short and the socket's buffer is empty, so one call sends the whole line.
        let sent = line.withUnsafeBytes { bytes in
            guard let passed else { return larder_send_nosignal(descriptor, bytes.baseAddress, bytes.count) }
            return larder_send_descriptors(descriptor, bytes.baseAddress, bytes.count, [passed], 1)
        }
        if sent < 0, passed != nil, errno == EBADF {
            throw LarderClientError(.invalidArgument, "the descriptor to pass is not open")
        }
        guard sent == line.count else { throw Self.broken(sent < 0 ? errno : EPIPE) }
        var file: ReceivedFile?
        var reply: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            var input = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let replyTimeout = end.map { CInt(clamping: max(.zero, clock.now.duration(to: $0)).milliseconds) } ?? -1
            let ready = poll(&input, 1, replyTimeout)
            if ready < 0, errno != EINTR { throw Self.broken(errno) }
            if ready == 0 {
                throw LarderClientError(.timeout, "the agent did not reply within \(timeout ?? .zero)")
            }
            var passed: CInt = -1
            var count = 0
            let received = larder_receive_descriptors(descriptor, &chunk, chunk.count, &passed, 1, &count)
            if received < 0, errno == EINTR || errno == EAGAIN { continue }
            guard received > 0 else { throw Self.broken(received == 0 ? ECONNRESET : errno) }
            if count == 1 { file = ReceivedFile(passed) }
            reply += chunk[..<received]
            if reply.last == UInt8(ascii: "\n") { break }
            guard reply.count <= maxReplyBytes else {
                throw LarderClientError(
                    .protocolViolation,
                    "the agent sent a line longer than \(maxReplyBytes) bytes, the client's maximumReplyBytes")
            }
        }
        do {
            return (try JSONValue(parsing: reply), file)
        } catch {
            throw LarderClientError(.protocolViolation, "the agent sent a line that is not JSON: \(error)")
        }
    }

    private static func broken(_ code: CInt) -> LarderClientError {
        LarderClientError(.disconnected, "the connection to the agent broke: \(String(cString: strerror(code)))")
    }
}
