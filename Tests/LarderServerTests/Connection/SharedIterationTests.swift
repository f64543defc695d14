import LarderEventLoop
import Foundation
import LarderConfig
import NIOCore
import Testing

@testable import LarderServer

@Suite("Connections with events in one loop iteration", .timeLimit(.minutes(15)))
struct SharedIterationTests {
    @Test("after a time slice is used up, connected clients are served before disconnected ones are closed")
    func disconnected() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        // The loop receives no events while it runs this closure. One later iteration finds the events of all four
        // clients, in this order.
        let group = try await loop.submit {
            let group = try ConnectionGroup(4, on: loop, context)
            // The time slice begins with the request of the first client and ends during that request.
            group.send(#"{"id":1,"method":"slow"}"#, by: 0)
            group.send(#"{"id":2,"method":"slow"}"#, by: 1)
            shutdown(group.ends[2], CInt(SHUT_RDWR))
            group.send(#"{"id":3,"method":"inspect"}"#, by: 3)
            return NIOLoopBound(group, eventLoop: loop)
        }.get()
        // A few iterations later all clients are served, and the connection of the disconnected client is closed.
        var (wereOpen, areOpen): ([Bool], [Bool]) = ([], [])
        while areOpen.filter({ !$0 }).isEmpty {
            (wereOpen, areOpen) = try await loop.submit {
                (group.value.wereOpen, group.value.connections.map { !$0.isClosed })
            }.get()
        }
        #expect(wereOpen == [true, true, true, true])
        #expect(areOpen == [true, true, false, true])
        try await loop.submit { group.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    @Test("other clients are served while hundreds of stalled clients are closed")
    func manyStalled() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        var limits = ConnectionLimits()
        limits.sendTimeout = .milliseconds(1)
        let (count, stalled) = (150, limits)
        let group = try await loop.submit {
            let group = try ConnectionGroup(count + 1, on: loop, context, limits: stalled)
            for client in 0..<count {
                group.send(#"{"id":1,"method":"large"}"#, by: client)
                group.connections[client].ready(.readable)
            }
            group.send(#"{"id":1,"method":"inspect"}"#, by: count)
            #expect(group.connections.filter(\.isOutputPending).count == count)
            // After this time all clients that do not read are stalled, and the next search for stalled clients is due.
            let due = NIODeadline.now() + .milliseconds(20)
            while NIODeadline.now() < due {}
            return NIOLoopBound(group, eventLoop: loop)
        }.get()
        var (wereOpen, areOpen): ([Bool], [Bool]) = ([], [])
        while areOpen.filter({ !$0 }).count < count {
            (wereOpen, areOpen) = try await loop.submit {
                (group.value.wereOpen, group.value.connections.map { !$0.isClosed })
            }.get()
        }
        #expect(wereOpen.prefix(count).contains(false), "no client was closed before the request")
        #expect(wereOpen.prefix(count).contains(true), "no client was still open at the request")
        #expect(areOpen.last == true)
        try await loop.submit { group.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }
}
