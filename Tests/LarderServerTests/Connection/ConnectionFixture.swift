import LarderEventLoop
import Foundation
import LarderJSON
import LarderConfig
import LarderConfigModel
import LarderPlatform
import LarderUpstream
import LarderProtocol
import Logging
import NIOCore
import NIOPosix

@testable import LarderServer

extension PeerCredentials {
    /// A user who has only the rights that the access rules grant.
    static var stranger: PeerCredentials { PeerCredentials(descriptor: -1) }

    /// The user who runs the tests. This is the agent's own user, who has every right.
    static var own: PeerCredentials {
        var peer = stranger
        peer.uid = Int(geteuid())
        return peer
    }
}

extension MethodRegistry {
    /// Adds a method that replies immediately with the result that `body` writes.
    mutating func add(_ name: String, _ body: @escaping (inout JSONWriter) throws(WireError) -> Void) {
        let handler = Handler(lifetime: .connection, needsReply: false) {
            (dispatcher, request, slot, _) throws(WireError) in
            var writer = JSONWriter()
            try body(&writer)
            dispatcher.connection.output.reply(id: request.id, WrittenResult(bytes: writer.bytes), in: slot)
        }
        add(name, handler)
    }

    /// Adds the method `slow`, which takes longer than a time slice and calls `served` before it replies.
    mutating func addSlow(_ served: @escaping () -> Void = {}) {
        add("slow") { (writer) throws(WireError) in
            let end = NIODeadline.now() + .milliseconds(1)
            while NIODeadline.now() < end {}
            served()
            writer.value(true)
        }
    }
}

private struct WrittenResult: WireResult {
    let bytes: [UInt8]
    init(bytes: [UInt8]) { self.bytes = bytes }
    init(from value: JSONValue) throws(WireError) { bytes = Array(value.compactText.utf8) }
    func write(to writer: inout JSONWriter) { writer.raw(bytes) }
}

/// Runs connections on an event loop with a manual clock.
enum ConnectionFixture {
    /// Sends text, ends the input, and returns the lines that the connection sent.
    static func exchange(
        _ sent: String, with methods: MethodRegistry = .agent, limits: ConnectionLimits = ConnectionLimits()
    ) async throws -> [String] {
        try await exchange([Array(sent.utf8)], with: methods, limits: limits)
    }

    /// Sends bytes that arrive in pieces, ends the input, and returns the lines that the connection sent.
    static func exchange(
        _ pieces: [[UInt8]], with methods: MethodRegistry = .agent, limits: ConnectionLimits = ConnectionLimits()
    ) async throws -> [String] {
        try await with(methods, limits: limits) { client, _ in
            for piece in pieces { try await client.send(piece) }
            try await client.endInput()
            let lines = try await client.output()
            guard try await client.isClosed else { throw StillOpen() }
            return lines
        }
    }

    /// Runs `body` with the client of a connection and the context of its server.
    static func with<Result: Sendable>(
        _ methods: MethodRegistry = .agent, limits: ConnectionLimits = ConnectionLimits(), peer: PeerCredentials = .own,
        access: AccessRules = AccessRules(), namespaces: [String] = ["default"],
        flags: FlagSettings? = nil, secrets: SecretPatterns = .none, wallClock: WallClock = .system,
        _ body: (ConnectionClient, ServerContext) async throws -> Result
    ) async throws -> Result {
        let configurations = namespaces.map { name in
            var configuration = NamespaceConfiguration(name: name)
            (configuration.flags, configuration.secrets) = (flags, secrets)
            return configuration
        }
        let context = try await serverContext(configurations, access: access, wallClock: wallClock)
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let methods = UncheckedMethods(table: methods)
        let client = try await ConnectionClient { eventLoop, socket in
            let server = LoopServer(
                LoopLoad(eventLoop: eventLoop), try Epoll(), server: context, methods: methods.table,
                registry: ConnectionRegistry())
            return ConnectionProbe.start(socket, on: server, peer: peer, limits: limits)
        }
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await body(client, context)) } catch { result = .failure(error) }
        try await client.end()
        await context.namespaces.stop()
        return try result.get()
    }

    /// Passes the methods to the event loop. The closures of the methods are not sendable, but are called only on the
    /// loop.
    private struct UncheckedMethods: @unchecked Sendable {
        let table: MethodRegistry
    }

    /// Thrown if a connection is still open after its last reply.
    struct StillOpen: Error {}

    private static let threads = {
        let threads = NIOThreadPool(numberOfThreads: 1)
        threads.start()
        return threads
    }()

    static func serverContext(
        _ namespaces: [NamespaceConfiguration] = [NamespaceConfiguration(name: "default")],
        access: AccessRules = AccessRules(), wallClock: WallClock = .system
    ) async throws -> ServerContext {
        let directory = NSTemporaryDirectory() + "/larder-connection-" + UUID().uuidString
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let namespaces = try await ConfigNamespaces(
            namespaces, stateDirectory: directory, threads: threads,
            fetcher: HTTPFetcher(configuration: .init(version: "test", connectTimeout: .seconds(300))),
            hostIdentity: "test", logger: logger)
        return ServerContext(
            namespaces: namespaces,
            identity: ServerContext.Identity(
                version: "test", socketPath: "/x", isActivated: false, stateDirectory: directory),
            settings: ServerContext.SettingsSource(path: nil, readAt: Timestamp(milliseconds: 0)),
            limits: ConnectionLimits(), access: access, wallClock: wallClock, logger: logger)
    }
}
