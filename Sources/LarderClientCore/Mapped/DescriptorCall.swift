import CLinuxShims
import LarderEncoding
import LarderJSON
import LarderProtocol
import Glibc

/// One request that passes an open file to the agent, or whose reply passes one to the client (unix(7), `SCM_RIGHTS`).
/// It uses a separate connection, because the client's own connection cannot pass descriptors.
package struct DescriptorCall: Sendable {
    /// A reply. Its connection is closed, and the leases of the connection end, when the last copy of the reply is
    /// released.
    package struct Reply: Sendable {
        /// The result, as received.
        package let result: JSONValue
        /// The file that came with the reply; nil if none did.
        package let file: ReceivedFile?
        fileprivate let stream: DescriptorStream
    }

    private let transport: Transport
    private let configuration: LarderClient.Configuration

    /// - Parameter client: the client whose agent and options the call uses
    package init(_ client: LarderClient) { (transport, configuration) = (client.transport, client.configuration) }

    /// Sends a request and waits for its reply. Stops waiting if the task is cancelled.
    /// - Parameter passed: a descriptor to send with the first byte; nil for none. The caller still owns it.
    /// - Returns: the result, and the file that came with it; nil if none did.
    func send<Method: WireMethod>(
        _ method: Method.Type, _ parameters: Method.Parameters, passing passed: CInt? = nil
    ) async throws(LarderClientError) -> (result: Method.Result, file: ReceivedFile?) {
        let reply = try await send(Method.name, passing: passed) { parameters.write(to: &$0) }
        return (try Method.read(reply.result), reply.file)
    }

    /// Sends a request and waits for its reply. Stops waiting if the task is cancelled.
    /// - Parameters:
    ///   - passed: a descriptor to send with the first byte; nil for none. The caller still owns it.
    ///   - timeout: the maximum duration of the call; nil for that of the client.
    ///   - onNotification: called with each notification that arrives before the reply, on another thread.
    ///   - params: writes the parameters.
    package func send(
        _ method: String, passing passed: CInt? = nil, timeout: Duration? = nil,
        onNotification: @escaping @Sendable (JSONValue) -> Void = { _ in }, params: (inout JSONWriter) -> Void
    ) async throws(LarderClientError) -> Reply {
        try transport.check(method)
        let timeout = timeout ?? configuration.timeout
        try CallArguments.check(timeout: timeout, of: method)
        if Task.isCancelled { throw .cancelled }
        let stream = try await configuration.retryingWhileBusy { () async throws(LarderClientError) in
            try DescriptorStream(connectedBy: transport)
        }
        var writer = JSONWriter()
        Envelope.writeRequest(id: RequestID(1), method: method, to: &writer, params: params)
        writer.endLine()
        let (line, maxReplyBytes) = (writer.bytes, configuration.maximumReplyBytes)
        let outcome = await withTaskCancellationHandler {
            await onOwnThread {
                Result { () throws(LarderClientError) in
                    try stream.exchange(
                        method, line, passing: passed, timeout: timeout, maxReplyBytes: maxReplyBytes, onNotification)
                }
            }
        } onCancel: {
            stream.interrupt()
        }
        if Task.isCancelled { throw .cancelled(method, isSent: true) }
        let (reply, file) = try outcome.mapError { $0.advised(for: method) }.get()
        if let error = reply["error"] { throw LarderClientError(remote: WireError(from: error)) }
        guard let result = reply["result"] else {
            throw LarderClientError(.protocolViolation, "the reply has neither result nor error")
        }
        return Reply(result: result, file: file, stream: stream)
    }
}

/// A file that the agent passed. It is closed when the last reference to this object is released.
package final class ReceivedFile: Sendable {
    package let descriptor: CInt

    package init(_ descriptor: CInt) { self.descriptor = descriptor }

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
        _ method: String, _ line: [UInt8], passing passed: CInt?, timeout: Duration?, maxReplyBytes: Int,
        _ onNotification: (JSONValue) -> Void
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
        var framer = LineFramer(maximumLineBytes: maxReplyBytes)
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            var input = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let replyTimeout = end.map { CInt(clamping: max(.zero, clock.now.duration(to: $0)).milliseconds) } ?? -1
            let ready = poll(&input, 1, replyTimeout)
            if ready < 0, errno != EINTR { throw Self.broken(errno) }
            if ready == 0 {
                throw .timeout(of: method, after: timeout ?? .zero)
            }
            var passed: CInt = -1
            var count = 0
            let received = larder_receive_descriptors(descriptor, &chunk, chunk.count, &passed, 1, &count)
            if received < 0, errno == EINTR || errno == EAGAIN { continue }
            guard received > 0 else { throw Self.broken(received == 0 ? ECONNRESET : errno) }
            if count == 1 { file = ReceivedFile(passed) }
            var offset = 0
            while let line = Self.nextLine(of: &framer, in: chunk[..<received], at: &offset) {
                guard !line.isEmpty else {
                    throw LarderClientError(
                        .protocolViolation,
                        "the agent sent a line longer than \(maxReplyBytes) bytes, the client's maximumReplyBytes")
                }
                let message: JSONValue
                do {
                    message = try JSONValue(parsing: line)
                } catch {
                    throw LarderClientError(
                        .protocolViolation, "the agent sent a line that is not JSON: \(error)")
                }
                if message["method"] == nil { return (message, file) }
                onNotification(message)
            }
        }
    }

    /// Returns the next line that ends in the input; empty if it is too long, nil if there is none.
    private static func nextLine(
        of framer: inout LineFramer, in input: ArraySlice<UInt8>, at offset: inout Int
    ) -> [UInt8]? {
        input.withUnsafeBytes { bytes in
            switch framer.next(in: bytes, at: &offset) {
            case nil: nil
            case .whole(let line): Array(line)
            case .assembled(let line): line
            case .tooLong: []
            }
        }
    }

    private static func broken(_ code: CInt) -> LarderClientError {
        LarderClientError(.disconnected, "the connection to the agent broke: \(String(cString: strerror(code)))")
    }
}
