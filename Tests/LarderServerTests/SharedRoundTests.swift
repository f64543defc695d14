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
    @Test("who is gone waits for those who are there, where there is no time for both")
    func gone() async throws {
        let context = try await SessionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        // While the loop does this it is told of nothing: it finds all of it at once, in this order.
        let crowd = try await loop.submit {
            let crowd = try SessionCrowd([nil, nil, nil, nil], on: loop, context)
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
                (crowd.value.wereOpen, crowd.value.sessions.map { !$0.isClosed })
            }.get()
        }
        #expect(wereOpen == [true, true, true, true])
        #expect(areOpen == [true, true, false, true])
        try await loop.submit { crowd.value.close() }.get()
        loop.stop()
        await context.namespaces.stop()
    }

    /// For how much the sessions had asked when one looked. Waits for something to be so of all, and closes them.
    private static func requests(
        of crowd: NIOLoopBound<SessionCrowd>, on loop: EpollLoop, once condition: @escaping @Sendable (Session) -> Bool
    ) async throws -> [Int] {
        var (hadAsked, haveAsked): ([Int], Bool) = ([], false)
        while !haveAsked {
            (hadAsked, haveAsked) = try await loop.submit {
                (crowd.value.hadAsked, crowd.value.sessions.allSatisfy(condition))
            }.get()
        }
        try await loop.submit { crowd.value.close() }.get()
        loop.stop()
        return hadAsked
    }

    /// Which of these had asked by the time that the last one was served, all of which asked at once, in this order.
    private func served(_ users: [Int?]) async throws -> [Bool] {
        let context = try await SessionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        let crowd = try await loop.submit {
            let crowd = try SessionCrowd(users, on: loop, context)
            for client in users.indices.dropLast() { crowd.send(#"{"id":1,"method":"agent.ping"}"#, by: client) }
            crowd.send(#"{"id":1,"method":"look"}"#, by: users.count - 1)
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
        let hadAsked = try await Self.requests(of: crowd, on: loop) { $0.requests > 0 }
        await context.namespaces.stop()
        return hadAsked.map { $0 > 0 }
    }

    @Test("a user with a crowd of connections does not keep another one waiting for all of them")
    func crowdOfAnother() async throws {
        let hadAsked = try await served(Array(repeating: 12_345, count: 40) + [nil])
        #expect(hadAsked.prefix(40).filter { $0 }.count == UserShare.mostInRound, "the others come later")
        #expect(hadAsked.last == true)
    }

    @Test("what a crowd left over does not keep another user waiting for all of it")
    func crowdThatLeavesOver() async throws {
        let context = try await SessionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        let count = 40
        let crowd = try await loop.submit {
            let crowd = try SessionCrowd(Array(repeating: 12_345, count: count) + [nil], on: loop, context)
            let slow = #"{"id":1,"method":"slow"}"# + "\n"
            for client in 0..<count { crowd.send(slow + slow, by: client) }
            crowd.send(slow + #"{"id":2,"method":"look"}"#, by: count)
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
        let hadAsked = try await Self.requests(of: crowd, on: loop) { $0.requests == 2 || $0.peer.uid == 12_345 }
        // The first of the round has time for both of its lines, and one turn of the crowd's comes before the one of the other.
        let most = UserShare.mostInRound + 2
        #expect((UserShare.mostInRound...most).contains(hadAsked.prefix(count).reduce(0, +)))
        await context.namespaces.stop()
    }

    @Test("who connects beside a crowd of another user that has left much over is not behind all of it")
    func joinsBesideCrowd() async throws {
        let context = try await SessionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        let count = 40
        let crowd = try await loop.submit {
            let crowd = try SessionCrowd(Array(repeating: 12_345, count: count), on: loop, context)
            let slow = #"{"id":1,"method":"slow"}"# + "\n"
            for client in 0..<count { crowd.send(slow + slow + slow, by: client) }
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
        // All of the crowd have been served once then, and have 80 ms of work left.
        let before = try await loop.scheduleTask(in: .milliseconds(45)) {
            try crowd.value.join(nil)
            let slow = #"{"id":1,"method":"slow"}"# + "\n"
            crowd.value.send(slow + slow + #"{"id":2,"method":"look"}"#, by: count)
            return crowd.value.sessions.reduce(0) { $0 + $1.requests }
        }.futureResult.get()
        let hadAsked = try await Self.requests(of: crowd, on: loop) {
            $0.requests == 3
        }
        #expect(hadAsked.prefix(count).reduce(0, +) - before < 10)
        await context.namespaces.stop()
    }

    @Test("a crowd that reads at last does not keep another user waiting for all that it had asked before")
    func crowdThatReads() async throws {
        let context = try await SessionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        let count = 40
        let crowd = try await loop.submit {
            let crowd = try SessionCrowd(
                Array(repeating: 12_345, count: count) + [nil], on: loop, context, room: 24_576)
            for client in 0..<count {
                crowd.send(#"{"id":1,"method":"most"}"# + "\n" + #"{"id":2,"method":"agent.ping"}"#, by: client)
            }
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
        while try await loop.submit({ !crowd.value.sessions.prefix(count).allSatisfy(\.isOutputPending) }).get() {}
        // The loop is told of all of it at once.
        try await loop.submit {
            #expect(crowd.value.sessions.prefix(count).allSatisfy { $0.requests == 1 })
            for client in 0..<count { while !crowd.value.received(by: client).isEmpty {} }
            crowd.value.send(#"{"id":1,"method":"look"}"#, by: count)
        }.get()
        let hadAsked = try await Self.requests(of: crowd, on: loop) { $0.requests > 1 || $0.peer.uid != 12_345 }
        #expect(hadAsked.prefix(count).filter { $0 == 2 }.count == UserShare.mostInRound)
        await context.namespaces.stop()
    }

    @Test("the connections of one user take turns as they come")
    func crowdOfOneUser() async throws {
        #expect(try await served(Array(repeating: nil, count: 41)).allSatisfy { $0 })
    }

    @Test("while hundreds are dropped who do not read, the others are served")
    func manyStalled() async throws {
        let context = try await SessionFixture.serverContext()
        defer { try? FileManager.default.removeItem(atPath: context.identity.stateDirectory) }
        let loop = try EpollLoop(name: "round")
        var limits = LimitSettings()
        limits.stall = .milliseconds(1)
        let (count, stalled) = (150, limits)
        let crowd = try await loop.submit {
            let crowd = try SessionCrowd(Array(repeating: nil, count: count + 1), on: loop, context, limits: stalled)
            for client in 0..<count {
                crowd.send(#"{"id":1,"method":"much"}"#, by: client)
                crowd.sessions[client].ready(.readable)
            }
            crowd.send(#"{"id":1,"method":"look"}"#, by: count)
            #expect(crowd.sessions.filter(\.isOutputPending).count == count)
            // The next look at them is due by now; all of them have taken nothing for too long.
            let due = NIODeadline.now() + .milliseconds(20)
            while NIODeadline.now() < due {}
            return NIOLoopBound(crowd, eventLoop: loop)
        }.get()
        var (wereOpen, areOpen): ([Bool], [Bool]) = ([], [])
        while areOpen.filter({ !$0 }).count < count {
            (wereOpen, areOpen) = try await loop.submit {
                (crowd.value.wereOpen, crowd.value.sessions.map { !$0.isClosed })
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
