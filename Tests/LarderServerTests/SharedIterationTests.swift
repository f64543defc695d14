import LarderEventLoop
import Foundation
import LarderConfig
import LarderJSON
import LarderProtocol
import NIOCore
import Testing

@testable import LarderServer

/// What the connections of one event loop do to each other, of which it is told at once.
@Suite("Connections of one round", .timeLimit(.minutes(1)))
struct SharedIterationTests {
    @Test("who is gone waits for those who are there, where there is no time for both")
    func gone() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        // While the loop does this it is told of nothing: it finds all of it at once, in this order.
        let crowd = try await loop.submit {
            let crowd = try ConnectionCrowd(4, on: loop, context)
            // The time begins with the first one's.
            crowd.send(#"{"id":1,"method":"slow"}"#, by: 0)
            crowd.send(#"{"id":2,"method":"slow"}"#, by: 1)
            shutdown(crowd.ends[2], CInt(SHUT_RDWR))
            crowd.send(#"{"id":3,"method":"look"}"#, by: 3)
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
        // A few turns later everybody was served, and the connection of who is gone is closed.
        var (wereOpen, areOpen): ([Bool], [Bool]) = ([], [])
        while areOpen.filter({ !$0 }).isEmpty {
            (wereOpen, areOpen) = try await loop.submit {
                (crowd.value.wereOpen, crowd.value.connections.map { !$0.isClosed })
            }.get()
        }
        #expect(wereOpen == [true, true, true, true])
        #expect(areOpen == [true, true, false, true])
        try await loop.submit { crowd.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    @Test("while hundreds are dropped who do not read, the others are served")
    func manyStalled() async throws {
        let context = try await ConnectionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        var limits = ConnectionLimits()
        limits.stall = .milliseconds(1)
        let (count, stalled) = (150, limits)
        let crowd = try await loop.submit {
            let crowd = try ConnectionCrowd(count + 1, on: loop, context, limits: stalled)
            for client in 0..<count {
                crowd.send(#"{"id":1,"method":"much"}"#, by: client)
                crowd.connections[client].ready(.readable)
            }
            crowd.send(#"{"id":1,"method":"look"}"#, by: count)
            #expect(crowd.connections.filter(\.isOutputPending).count == count)
            // The next look at them is due by now; all of them have taken nothing for too long.
            let due = NIODeadline.now() + .milliseconds(20)
            while NIODeadline.now() < due {}
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
        var (wereOpen, areOpen): ([Bool], [Bool]) = ([], [])
        while areOpen.filter({ !$0 }).count < count {
            (wereOpen, areOpen) = try await loop.submit {
                (crowd.value.wereOpen, crowd.value.connections.map { !$0.isClosed })
            }.get()
        }
        #expect(wereOpen.prefix(count).contains(false), "some were dropped already")
        #expect(wereOpen.prefix(count).contains(true), "and not yet all of them")
        #expect(areOpen.last == true)
        try await loop.submit { crowd.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }
}
