import Foundation
import Glibc
import LarderClientCore
import LarderHTTPGateway
import LarderTesting
import Logging
import NIOCore
import TestSupport

/// A gateway that serves a test agent on a port of 127.0.0.1.
final class GatewayUnderTest: Sendable {
    private let gateway: Gateway
    let port: Int

    /// - Parameter settings: JSON5 with the members of the settings other than `listen`
    init(_ agent: TestAgent, _ settings: String) async throws {
        var configuration = agent.clientConfiguration
        // The gateway connects again in real time.
        configuration.clock = ContinuousClock()
        let text = #"{ "listen": "127.0.0.1:0", \#(settings) }"#
        gateway = try await Gateway(
            GatewaySettings.parse(Array(text.utf8), "http.json"), sockets: [],
            client: agent.client(configuration: configuration),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        port = gateway.addresses.first?.port ?? 0
    }

    func shutDown() async { await gateway.shutDown() }

    /// Waits until all namespaces have a snapshot.
    func waitUntilReady() async throws { _ = try await wait(for: "/readyz") { $0.status == 200 } }

    /// Sends GET requests until a response satisfies a condition.
    func wait(
        for target: String, _ fields: [String] = [], until condition: (Received) -> Bool
    ) async throws -> Received {
        try await repeated({ try await get(target, fields) }, until: condition)
    }

    /// Repeats a request until its response satisfies a condition.
    func repeated(
        _ request: () async throws -> Received, until condition: (Received) -> Bool
    ) async throws -> Received {
        let deadline = Deadline.usual
        while !deadline.hasPassed {
            let received = try await request()
            if condition(received) { return received }
            try await Task.sleep(for: .milliseconds(2))
        }
        throw HarnessError.timeout("a response")
    }

    func get(_ target: String, _ fields: [String] = []) async throws -> Received {
        try await exchange("GET", target, fields)
    }

    func post(_ target: String, _ body: String, _ fields: [String] = []) async throws -> Received {
        try await exchange("POST", target, fields, Array(body.utf8))
    }

    func exchange(_ method: String, _ target: String, _ fields: [String] = [], _ body: [UInt8]? = nil) async throws
        -> Received
    {
        var lines = ["\(method) \(target) HTTP/1.1"] + fields
        if !fields.contains(where: { $0.lowercased().hasPrefix("host:") }) { lines.append("Host: localhost") }
        if let body { lines.append("Content-Length: \(body.count)") }
        return try await raw(Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + (body ?? []))
    }

    /// Sends bytes over a connection of their own, and returns the first response.
    func raw(_ bytes: [UInt8]) async throws -> Received {
        try await onThread { [port] in
            let wire = try Wire(port)
            try wire.send(bytes)
            return try wire.response(hasBody: !bytes.starts(with: Array("HEAD".utf8)))
        }
    }
}

/// Runs a body that blocks on a thread of its own.
func onThread<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Swift.Result { try body() }) }
    }
}

/// A response as it arrived.
struct Received: Sendable {
    let status: Int
    let fields: [String: String]
    let body: String

    subscript(_ name: String) -> String? { fields[name] }
}

/// One connection to the gateway. It blocks, so call the methods that read only in ``onThread(_:)``. Each of them ends at its
/// deadline, also if bytes such as the comments of a stream keep arriving. One thread at a time reads.
final class Wire: @unchecked Sendable {
    private let descriptor: Descriptor
    /// The bytes that have arrived, without the framing of chunks.
    private var input: [UInt8] = []
    /// The start of a chunk whose rest has not arrived; nil unless the body of the last response has chunks.
    private var chunks: [UInt8]?

    init(_ port: Int) throws { descriptor = try .connected(toPort: port) }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    /// Makes the connection end with a reset instead of a close.
    func resetAtEnd() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor.number, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Sends bytes again and again, until the gateway has not taken any for half a second, because its responses are not
    /// read.
    func flood(_ bytes: [UInt8]) {
        var entry = pollfd(fd: descriptor.number, events: Int16(POLLOUT), revents: 0)
        while poll(&entry, 1, 500) == 1 {
            if Glibc.send(descriptor.number, bytes, bytes.count, CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT)) < 0 { return }
        }
    }

    /// Sends bytes on a thread of its own, so that responses can be read meanwhile.
    func startSending(_ bytes: [UInt8]) {
        Thread.detachNewThread { try? self.send(bytes) }
    }

    func send(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor.number, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            // The gateway may have closed the connection after an early response.
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Reads the next response.
    func response(hasBody: Bool = true) throws -> Received {
        let deadline = Deadline.usual
        let head = try read(until: Array("\r\n\r\n".utf8), deadline)
        let lines = String(decoding: head, as: UTF8.self).components(separatedBy: "\r\n").filter { !$0.isEmpty }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            let colon = line.firstIndex(of: ":") ?? line.endIndex
            fields[line[..<colon].lowercased()] = line[colon...].dropFirst().trimmingCharacters(in: .whitespaces)
        }
        let status = Int(lines.first?.split(separator: " ").dropFirst().first ?? "") ?? 0
        let length = hasBody && status != 304 && status != 204 ? Int(fields["content-length"] ?? "0") ?? 0 : 0
        if fields["transfer-encoding"] == "chunked" {
            (chunks, input) = (input, [])
            try decodeChunks()
        }
        while input.count < length { guard try fill(deadline) else { break } }
        defer { input.removeFirst(min(length, input.count)) }
        return Received(status: status, fields: fields, body: String(decoding: input.prefix(length), as: UTF8.self))
    }

    /// Reads up to and including a sequence of bytes.
    private func read(until end: [UInt8], _ deadline: Deadline) throws -> [UInt8] {
        while true {
            if let range = input.firstRange(of: end) {
                defer { input.removeSubrange(..<range.upperBound) }
                return Array(input[..<range.upperBound])
            }
            guard try fill(deadline) else { throw HarnessError("the connection ended after \(input.count) bytes") }
        }
    }

    func read(until text: String) throws -> String {
        String(decoding: try read(until: Array(text.utf8), .usual), as: UTF8.self)
    }

    /// Waits until the gateway closes the connection.
    func waitForEnd() throws {
        let deadline = Deadline.usual
        while try fill(deadline) {}
    }

    private func fill(_ deadline: Deadline) throws -> Bool {
        if deadline.hasPassed { throw HarnessError.timeout("the gateway after \(input.count) bytes") }
        try wait(on: descriptor.number, until: deadline, "the gateway after \(input.count) bytes")
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(descriptor.number, &piece, piece.count, 0)
        guard count > 0 else { return false }
        if chunks == nil {
            input += piece[..<count]
        } else {
            chunks? += piece[..<count]
            try decodeChunks()
        }
        return true
    }

    /// Moves the content of the complete chunks to the input.
    private func decodeChunks() throws {
        while let bytes = chunks, let lineEnd = bytes.firstRange(of: Array("\r\n".utf8)) {
            guard let size = Int(String(decoding: bytes[..<lineEnd.lowerBound], as: UTF8.self), radix: 16) else {
                throw HarnessError("the size of a chunk is invalid")
            }
            let end = lineEnd.upperBound + size
            guard bytes.count >= end + 2 else { return }
            input += bytes[lineEnd.upperBound..<end]
            chunks = Array(bytes[(end + 2)...])
        }
    }
}
