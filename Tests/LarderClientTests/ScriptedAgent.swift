import Foundation
import LarderJSON
import LarderClient
import LarderProtocol
import Synchronization
import TestSupport

/// A server on a real Unix socket whose messages a test scripts. Its blocking calls run on separate threads, so that
/// they do not block the tasks of the test.
final class ScriptedAgent: Sendable {
    /// The socket's path.
    let path: String
    private let listener: Int32

    private init(path: String) throws {
        self.path = path
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        try check(withUnixAddress(path) { bind(listener, $0, $1) })
        try check(listen(listener, 16))
    }

    /// Runs `body` with an agent in a temporary directory.
    static func with<R>(_ body: (ScriptedAgent) async throws -> R) async throws -> R {
        try await withTemporaryDirectory { directory in
            let agent = try ScriptedAgent(path: "\(directory)/larder.sock")
            defer { close(agent.listener) }
            return try await body(agent)
        }
    }

    /// Returns a client of this agent. Its clock is an ``ImmediateClock``, so that the delays between attempts take no
    /// time. Its calls have no timeout, which a busy machine could exceed.
    func client(_ change: (inout LarderClient.Configuration) -> Void = { _ in }) -> LarderClient {
        LarderClient(socket: path, configuration: Self.configuration(change))
    }

    static func configuration(
        _ change: (inout LarderClient.Configuration) -> Void = { _ in }
    ) -> LarderClient.Configuration {
        var configuration = LarderClient.Configuration()
        configuration.clock = ImmediateClock()
        configuration.timeout = nil
        change(&configuration)
        return configuration
    }

    /// Waits for the next client. Throws if the task is cancelled, and no client can connect then.
    func accept() async throws -> ScriptedConnection {
        let listener = listener
        return try await onThread(endedBy: listener) {
            let descriptor = try check(Glibc.accept(listener, nil, nil))
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            return ScriptedConnection(descriptor)
        }
    }
}

/// The agent's side of one connection.
final class ScriptedConnection: Sendable {
    /// A received request.
    struct Request: Sendable {
        let method: String
        let id: JSONValue?
        let params: JSONValue?
    }

    private let descriptor: Int32
    private let received = Mutex<[UInt8]>([])
    private let isOpen = Mutex(true)

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close() }

    /// Waits for the next line; nil once the client has closed the connection or the task is cancelled, so that a script
    /// ends after the test has failed.
    func line() async throws -> String? {
        try await onThread(endedBy: descriptor) { [self] in
            while true {
                if let line = nextLine() { return line }
                var chunk = [UInt8](repeating: 0, count: 1 << 16)
                let count = recv(descriptor, &chunk, chunk.count, 0)
                if count == 0 || (count < 0 && errno == ECONNRESET) { return nil }
                try check(Int32(clamping: count))
                received.withLock { $0 += chunk[..<count] }
            }
        }
    }

    /// Waits for the next request. Throws if the connection ends or another method is called.
    func request(_ method: String? = nil) async throws -> Request {
        guard let line = try await line() else { throw ScriptError("the client closed the connection") }
        let value = try JSONValue(parsing: line)
        let request = Request(method: value["method"]?.string ?? "", id: value["id"], params: value["params"])
        if let method, method != request.method { throw ScriptError("\(method) was expected, not \(line)") }
        return request
    }

    func send(_ lines: String...) async throws {
        let bytes = Array(lines.map { $0 + "\n" }.joined().utf8)
        try await onThread(endedBy: descriptor) { [self] in
            var sent = 0
            while sent < bytes.count {
                let count = bytes[sent...].withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                sent += Int(try check(Int32(clamping: count)))
            }
        }
    }

    /// Sends a result.
    func reply(_ request: Request, _ result: JSONValue) async throws {
        try await send(#"{"jsonrpc":"2.0","id":\#(request.id ?? .null),"result":\#(result)}"#)
    }

    /// Sends an error.
    func fail(_ request: Request, _ code: WireError.Code, _ detail: String) async throws {
        try await fail(request, WireError(code, detail))
    }

    /// Sends an error.
    func fail(_ request: Request, _ error: WireError) async throws {
        let error = JSONValue.building { error.write(to: &$0) }
        try await send(#"{"jsonrpc":"2.0","id":\#(request.id ?? .null),"error":\#(error)}"#)
    }

    /// Waits for a `config.subscribe` request and accepts it with the subscription ID 1.
    @discardableResult
    func subscription(revision: Int, epoch: String = "e1") async throws -> Request {
        let request = try await request("config.subscribe")
        try await reply(
            request,
            ["subscription": 1, "revision": .int(revision), "epoch": .string(epoch), "state": "fresh"])
        return request
    }

    /// Sends a snapshot.
    func snapshot(
        _ sequence: Int, revision: Int, _ value: JSONValue, epoch: String = "e1", reason: String = "change",
        skipped: Int = 0, subscription: Int = 1
    ) async throws {
        let content = #""kind":"snapshot","reason":"\#(reason)","value":\#(value)"#
        try await event(
            sequence, revision: revision, epoch: epoch, skipped: skipped, subscription: subscription, content)
    }

    /// Sends a patch of subscription 1.
    func patch(_ sequence: Int, revision: Int, from: Int, _ patch: JSONValue, epoch: String = "e1") async throws {
        try await event(
            sequence, revision: revision, epoch: epoch, #""kind":"patch","from":\#(from),"patch":\#(patch)"#)
    }

    /// Ends subscription 1.
    func end(_ sequence: Int, revision: Int, reason: String) async throws {
        try await event(sequence, revision: revision, #""kind":"end","reason":"\#(reason)""#)
    }

    /// Sends an event.
    /// - Parameter content: the members of the event that depend on its kind
    func event(
        _ sequence: Int, revision: Int, epoch: String = "e1", skipped: Int = 0, subscription: Int = 1,
        _ content: String
    ) async throws {
        try await send(
            #"{"jsonrpc":"2.0","method":"config.event","params":{"subscription":\#(subscription),"#
                + #""sequence":\#(sequence),"#
                + (skipped > 0 ? #""skipped":\#(skipped),"# : "")
                + #""namespace":"default","epoch":"\#(epoch)","revision":\#(revision),"state":"fresh",\#(content)}}"#)
    }

    /// Closes the connection.
    func close() {
        let wasOpen = isOpen.withLock { isOpen in
            defer { isOpen = false }
            return isOpen
        }
        if wasOpen { Glibc.close(descriptor) }
    }

    private func nextLine() -> String? {
        received.withLock { bytes in
            guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            defer { bytes.removeSubrange(...end) }
            return String(decoding: bytes[..<end], as: UTF8.self)
        }
    }
}

/// Thrown if the client does not behave as the script expects.
struct ScriptError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Runs blocking calls with a socket on a separate thread. If the task is cancelled, the socket is shut down, which ends
/// the calls.
private func onThread<R: Sendable>(
    endedBy socket: Int32, _ work: @escaping @Sendable () throws -> R
) async throws -> R {
    try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result { try work() }) }
        }
    } onCancel: {
        shutdown(socket, Int32(SHUT_RDWR))
    }
}

@discardableResult
func check(_ result: Int32) throws -> Int32 {
    if result < 0 { throw ScriptError("errno \(errno): \(String(cString: strerror(errno)))") }
    return result
}
