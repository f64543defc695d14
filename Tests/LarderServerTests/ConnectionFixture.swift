import LarderEventLoop
import Foundation
import LarderJSON
import LarderConfig
import LarderUpstream
import LarderProtocol
import Logging
import NIOCore
import NIOPosix

@testable import LarderServer

extension PeerCredentials {
    /// Of nobody, who has no right but by the rules.
    static var stranger: PeerCredentials { PeerCredentials(descriptor: -1) }

    /// Of whoever runs the tests, who has every right.
    static var own: PeerCredentials {
        var peer = stranger
        peer.uid = Int(geteuid())
        return peer
    }
}

extension MethodTable {
    /// Adds `slow`, which takes longer than a turn.
    mutating func addSlow(_ served: @escaping () -> Void = {}) {
        add(
            "slow",
            .immediate { (_, _, writer) throws(WireError) in
                let end = NIODeadline.now() + .milliseconds(1)
                while NIODeadline.now() < end {}
                served()
                writer.value(true)
            })
    }
}

/// A connection on an event loop whose time is the test's.
enum ConnectionFixture {
    /// Sends bytes, ends the input, and hands back the lines that came out.
    static func exchange(
        _ sent: String, with methods: MethodTable = .agent, limits: ConnectionLimits = ConnectionLimits()
    ) async throws -> [String] {
        try await exchange([Array(sent.utf8)], with: methods, limits: limits)
    }

    /// The same for bytes that arrive in pieces.
    static func exchange(
        _ pieces: [[UInt8]], with methods: MethodTable = .agent, limits: ConnectionLimits = ConnectionLimits()
    ) async throws -> [String] {
        try await with(methods, limits: limits) { client, _ in
            for piece in pieces { try await client.send(piece) }
            try await client.endInput()
            let lines = try await client.output()
            guard try await client.isClosed else { throw StillOpen() }
            return lines
        }
    }

    /// Runs `body` with the client of a connection and what its server is made of.
    static func with<Result: Sendable>(
        _ methods: MethodTable = .agent, limits: ConnectionLimits = ConnectionLimits(), peer: PeerCredentials = .own,
        access: AccessRules = AccessRules(), namespaces: [String] = ["default"],
        _ body: (ConnectionClient, ServerContext) async throws -> Result
    ) async throws -> Result {
        let context = try await serverContext(namespaces.map { NamespaceConfiguration(name: $0) }, access: access)
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let methods = UncheckedMethods(table: methods)
        let client = try await ConnectionClient { eventLoop, socket in
            let loop = LoopContext(
                LoopLoad(eventLoop: eventLoop), try Epoll(), server: context, methods: methods.table,
                registry: ConnectionRegistry())
            return ConnectionProbe.start(socket, on: loop, peer: peer, limits: limits)
        }
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await body(client, context)) } catch { result = .failure(error) }
        try await client.end()
        await context.namespaces.stop()
        return try result.get()
    }

    /// Takes a method table to the event loop: it holds closures that are called there only.
    private struct UncheckedMethods: @unchecked Sendable {
        let table: MethodTable
    }

    /// A connection that should have closed, having nothing left to say.
    struct StillOpen: Error {}

    private static let threads = {
        let threads = NIOThreadPool(numberOfThreads: 1)
        threads.start()
        return threads
    }()

    /// What a server is made of.
    static func serverContext(
        _ namespaces: [NamespaceConfiguration] = [NamespaceConfiguration(name: "default")],
        access: AccessRules = AccessRules()
    ) async throws -> ServerContext {
        let directory = NSTemporaryDirectory() + "/larder-connection-" + UUID().uuidString
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let namespaces = try await ConfigNamespaces(
            namespaces, stateDirectory: directory, threads: threads,
            fetcher: HTTPFetcher(configuration: .init(version: "test")), hostIdentity: "test", logger: logger)
        return ServerContext(
            namespaces: namespaces,
            identity: ServerContext.Identity(
                version: "test", socketPath: "/x", isActivated: false, stateDirectory: directory),
            settings: ServerContext.SettingsSource(path: nil, readAt: Timestamp(milliseconds: 0)),
            limits: ConnectionLimits(), access: access, logger: logger)
    }
}
