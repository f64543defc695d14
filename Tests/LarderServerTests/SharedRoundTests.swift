import CLinuxShims
import Foundation
import JSON
import LarderConfig
import LarderWire
import NIOCore
import Testing

@testable import LarderServer

/// What the connections of one event loop do to each other, of which it is told at once.
@Suite("Sessions of one round", .timeLimit(.minutes(1)))
struct SharedRoundTests {
    /// Sessions on an event loop of their own, and the clients' ends of their sockets. Used on the loop only.
    private final class Crowd {
        let sessions: [Session]
        let ends: [CInt]
        /// Which sessions were still open when the last one was served.
        var wereOpen: [Bool] = []

        init(_ count: Int, on eventLoop: EpollLoop, _ server: ServerContext) throws {
            var table = MethodTable.agent
            var look: () -> Void = {}
            table.addSlow()
            table.add(
                "look",
                .immediate { (_, _, writer) throws(WireError) in
                    look()
                    writer.value(true)
                })
            let registry = ConnectionRegistry()
            let loop = LoopContext(
                LoopLoad(eventLoop: eventLoop), eventLoop.epoll, server: server, methods: table, registry: registry)
            let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
            var (sessions, ends): ([Session], [CInt]) = ([], [])
            for _ in 0..<count {
                var pair: [CInt] = [-1, -1]
                guard socketpair(AF_UNIX, type, 0, &pair) == 0 else { throw SessionClient.NoSocket() }
                let limits = LimitSettings()
                let session = Session(
                    id: registry.admit(limit: count) ?? 0, loop: loop, socket: pair[1], peer: .own, limits: limits,
                    usage: registry.join(.own, limits) ?? UserUsage(of: .own))
                session.start()
                sessions.append(session)
                ends.append(pair[0])
            }
            (self.sessions, self.ends) = (sessions, ends)
            look = { [unowned self] in wereOpen = self.sessions.map { !$0.isClosed } }
        }

        func send(_ line: String, by client: Int) {
            let bytes = Array((line + "\n").utf8)
            _ = bytes.withUnsafeBytes { Foundation.send(ends[client], $0.baseAddress, $0.count, 0) }
        }
    }

    @Test("who is gone waits for those who are there, where there is no time for both")
    func gone() async throws {
        let context = try await SessionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        // While the loop does this it is told of nothing: it finds all of it at once, in this order.
        let crowd = try await loop.submit {
            let crowd = try Crowd(4, on: loop, context)
            // The time begins with the first one's.
            crowd.send(#"{"id":1,"method":"slow"}"#, by: 0)
            crowd.send(#"{"id":2,"method":"slow"}"#, by: 1)
            close(crowd.ends[2])
            crowd.send(#"{"id":3,"method":"look"}"#, by: 3)
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
        // A few turns later everybody was served, and the connection of who is gone is closed.
        var (wereOpen, areOpen): ([Bool], [Bool]) = ([], [])
        while areOpen.filter({ !$0 }).isEmpty {
            (wereOpen, areOpen) = try await loop.submit {
                (crowd.value.wereOpen, crowd.value.sessions.map { !$0.isClosed })
            }.get()
        }
        #expect(wereOpen == [true, true, true, true])
        #expect(areOpen == [true, true, false, true])
        try await loop.submit {
            for session in crowd.value.sessions { session.close() }
            for client in [0, 1, 3] { close(crowd.value.ends[client]) }
        }.get()
        loop.stop()
        await context.namespaces.stop()
    }
}
