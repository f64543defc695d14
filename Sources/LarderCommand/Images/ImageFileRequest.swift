import CLinuxShims
import LarderJSON
import LarderClientCore
import LarderProtocol
import Glibc

/// A request for an image. With the first byte of its reply, the agent passes the open file of the image (unix(7),
/// `SCM_RIGHTS`). Therefore the request works for users who can connect to the agent but cannot enter the directories
/// of its cache.
///
/// It uses a separate connection for one request, because the connection of the client library cannot receive
/// descriptors. Its methods block.
struct ImageFileRequest {
    let socket: String
    let parameters: ImageGet.Parameters
    /// The time after which the request fails if there is no reply.
    let replyTimeout: Duration
    /// Called with the progress of the download, if `parameters` requests it.
    var report: @Sendable (ImageGet.Progress) -> Void = { _ in }
    /// Creates the commands in messages.
    var hints = Hints()

    /// Sends the request and calls `use` with the file of the image, positioned at its start. The lease lasts until
    /// `use` returns. If the agent passes no descriptor, the file is opened by its path.
    /// - Returns: the agent's result as received.
    /// - Throws: ``Failure`` if the image or its file is not available, and the errors of `use`.
    func withFile(
        _ use: (ImageGet.Result, _ file: CInt) throws(Failure) -> Void
    ) throws(Failure) -> JSONValue {
        let stream = try connect()
        defer { close(stream) }
        try send(over: stream, as: .descriptor)
        var file: CInt = -1
        defer { if file >= 0 { close(file) } }
        let value = try reply(over: stream, passing: &file)
        let result = try Self.result(from: value)
        if file < 0 {
            file = open(result.path, O_RDONLY | O_CLOEXEC)
            guard file >= 0 else {
                throw Failure(
                    .failure,
                    "the agent passed no descriptor, and \(result.path.printable) cannot be read: "
                        + String(cString: strerror(errno)))
            }
        }
        try use(result, file)
        return value
    }

    /// Sends the request and calls `use` with the result, which has the path of the image. The lease lasts until `use`
    /// returns.
    /// - Throws: ``Failure`` if the image is not available, and the errors of `use`.
    func withPath<Value>(_ use: (ImageGet.Result) throws(Failure) -> Value) throws(Failure) -> Value {
        let stream = try connect()
        defer { close(stream) }
        try send(over: stream, as: .path)
        var file: CInt = -1
        return try use(Self.result(from: reply(over: stream, passing: &file)))
    }

    /// Sends the request without requesting a descriptor. The lease ends when this method returns.
    /// - Returns: the agent's result as received.
    func result() throws(Failure) -> JSONValue {
        let stream = try connect()
        defer { close(stream) }
        try send(over: stream, as: .path)
        var file: CInt = -1
        return try reply(over: stream, passing: &file)
    }

    private static func result(from value: JSONValue) throws(Failure) -> ImageGet.Result {
        do throws(WireError) {
            return try ImageGet.Result(from: value)
        } catch {
            throw notUnderstood
        }
    }

    private func connect() throws(Failure) -> CInt {
        do throws(LarderSocket.ConnectError) {
            return try LarderSocket.connect(socket, isBlocking: true)
        } catch {
            throw Self.disconnected(error.code)
        }
    }

    private func send(over stream: CInt, as delivery: ImageGet.Delivery) throws(Failure) {
        var parameters = parameters
        parameters.delivery = delivery
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
        guard code == 0 else { throw Self.disconnected(code) }
    }

    /// Waits for the reply and returns its result. Reports the progress until then.
    /// - Parameter file: set to the descriptor that came with the reply, if any.
    private func reply(over stream: CInt, passing file: inout CInt) throws(Failure) -> JSONValue {
        let end = ContinuousClock.now + replyTimeout
        var input: [UInt8] = []
        while true {
            let line = try line(over: stream, after: &input, passing: &file, until: end)
            guard let message = try? JSONValue(parsing: line) else { throw Self.notUnderstood }
            if message["method"]?.string == ImageProgress.method {
                if let progress = try? ImageGet.Progress(params: message["params"] ?? .null) { report(progress) }
                continue
            }
            if let result = message["result"] { return result }
            guard let error = message["error"] else { throw Self.notUnderstood }
            throw Failure(LarderClientError(remote: WireError(from: error)), hints)
        }
    }

    /// Receives the next line.
    /// - Parameter input: the bytes that were received after the previous line.
    private func line(
        over stream: CInt, after input: inout [UInt8], passing file: inout CInt, until end: ContinuousClock.Instant
    ) throws(Failure) -> [UInt8] {
        let clock = ContinuousClock()
        var chunk = [UInt8](repeating: 0, count: 1 << 14)
        while true {
            if let end = input.firstIndex(of: UInt8(ascii: "\n")) {
                let line = Array(input[..<end])
                input.removeFirst(end + 1)
                return line
            }
            var readable = pollfd(fd: stream, events: Int16(POLLIN), revents: 0)
            let left = TimeSpan(max(.zero, clock.now.duration(to: end))).milliseconds
            let ready = poll(&readable, 1, CInt(clamping: left))
            if ready < 0, errno == EINTR { continue }
            if ready == 0, clock.now < end { continue }
            guard ready != 0 else {
                throw Failure(
                    .timeout,
                    "the agent did not reply within \(replyTimeout); increase --timeout, or check the agent with: "
                        + hints.command("larder status"))
            }
            var passed: CInt = -1
            var count = 0
            let bytes = larder_receive_descriptors(stream, &chunk, chunk.count, &passed, 1, &count)
            if bytes < 0, errno == EINTR { continue }
            guard bytes > 0 else { throw Self.disconnected(bytes == 0 ? ECONNRESET : errno) }
            if count == 1 {
                if file >= 0 { close(file) }
                file = passed
            }
            input += chunk[..<bytes]
        }
    }

    private static func disconnected(_ code: CInt) -> Failure {
        Failure(
            .unreachable,
            "cannot get the image file from the agent: \(String(cString: strerror(code))); retry, because the agent may "
                + "have restarted")
    }

    private static let notUnderstood = Failure(
        .failure, "the agent's reply is invalid; check that larder and larderd have the same version: larder doctor")
}
