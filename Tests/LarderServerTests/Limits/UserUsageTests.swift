import Foundation
import LarderProtocol
import Synchronization
import Testing

@testable import LarderServer

@Suite("Resource usage of a user")
struct UserUsageTests {
    private static let limits: ConnectionLimits = {
        var limits = ConnectionLimits()
        limits.connectionsPerUser = 2
        limits.subscriptionsPerUser = 3
        limits.requestsInFlightPerUser = 1
        limits.leasesPerUser = 2
        limits.queuedBytesPerUser = 100
        return limits
    }()

    @Test("each user has a limit of connections, except root and the agent's own user")
    func connections() throws {
        let table = UserUsageTable()
        var other = PeerCredentials.stranger
        other.uid = 65533
        let first = try #require(table.join(.stranger, Self.limits))
        #expect(table.join(.stranger, Self.limits) === first)
        #expect(table.join(.stranger, Self.limits) == nil)
        #expect(table.join(other, Self.limits) != nil)
        for _ in 0..<5 { #expect(table.join(.own, Self.limits) != nil) }
        #expect(table.count == 3)
        table.leave(first)
        #expect(table.join(.stranger, Self.limits) === first)
        #expect(table.join(.stranger, Self.limits) == nil)
        let refusal = UserUsageTable.refusal(of: .stranger, Self.limits)
        #expect(refusal.code == .limitExceeded)
        #expect(refusal.detail.contains("user 65534 has 2 connections"))
        #expect(refusal.detail.contains("limits.connectionsPerUser"))
    }

    @Test("the default of connectionsPerUser is a quarter of the setting `connections`, and at least 1")
    func quarter() {
        var limits = ConnectionLimits()
        #expect(limits.effectiveConnectionsPerUser == 4096)
        limits.connections = 3
        #expect(limits.effectiveConnectionsPerUser == 1)
    }

    @Test(
        "the subscriptions, requests and leases of a user are limited until they end, except for the agent's user"
    )
    func places() throws {
        let table = UserUsageTable()
        let usage = try #require(table.join(.stranger, Self.limits))
        for _ in 0..<3 { try usage.addSubscription(Self.limits) }
        let many = #expect(throws: UsageRefusal.self) { try usage.addSubscription(Self.limits) }
        #expect(many?.error.detail.contains("limits.subscriptionsPerUser") == true)
        usage.removeSubscription()
        try usage.addSubscription(Self.limits)
        try usage.addRequest(Self.limits)
        let inFlight = #expect(throws: UsageRefusal.self) { try usage.addRequest(Self.limits) }
        #expect(inFlight?.error.detail.contains("limits.requestsInFlightPerUser") == true)
        usage.removeRequest()
        try usage.addRequest(Self.limits)
        for _ in 0..<2 { try usage.addLease(Self.limits) }
        let leases = #expect(throws: UsageRefusal.self) { try usage.addLease(Self.limits) }
        #expect(leases?.error.detail.contains("limits.leasesPerUser") == true)
        usage.removeLeases(2)
        try usage.addLease(Self.limits)
        let own = try #require(table.join(.own, Self.limits))
        for _ in 0..<9 {
            try own.addLease(Self.limits)
            try own.addRequest(Self.limits)
            try own.addSubscription(Self.limits)
        }
    }

    @Test("an unfinished request of a disconnected client counts towards the user's limit until it ends")
    func orphanedRequest() throws {
        let table = UserUsageTable()
        let usage = try #require(table.join(.stranger, Self.limits))
        try usage.addRequest(Self.limits)
        table.leave(usage)
        let again = try #require(table.join(.stranger, Self.limits))
        #expect(throws: UsageRefusal.self) { try again.addRequest(Self.limits) }
        table.leave(again)
        #expect(table.count == 1)
        usage.charge(5)
        table.removeOrphanedRequest(usage, chargedBytes: 5)
        #expect(table.count == 0)
    }

    @Test("a file that is being closed counts after its user has reconnected, and the user is forgotten afterwards")
    func closingFile() throws {
        let table = UserUsageTable()
        let usage = try #require(table.join(.stranger, Self.limits))
        for _ in 0..<2 { usage.addFile() }
        table.leave(usage)
        let again = try #require(table.join(.stranger, Self.limits))
        #expect(again === usage)
        #expect(again.refusalOfFile(Self.limits)?.detail.contains("limits.connectionsPerUser") == true)
        table.leave(again)
        for _ in 0..<2 { usage.removeFile() }
        let own = try #require(table.join(.own, Self.limits))
        #expect(table.count == 1)
        table.leave(own)
        #expect(table.count == 0)
        #expect(table.descriptors == 0)
    }

    @Test("connections and files of all users count together, and leave room for root and the agent's own user")
    func descriptors() throws {
        var limits = Self.limits
        limits.connections = 8
        limits.connectionsPerUser = 8
        #expect(limits.connectionsOfOthers == 6)
        let registry = ConnectionRegistry()
        let usage = try #require(registry.join(.stranger, limits))
        #expect(registry.admit(.stranger, limits) != nil)
        for _ in 0..<4 { usage.addFile() }
        #expect(usage.refusalOfFile(limits) == nil)
        usage.addFile()
        let refusal = try #require(usage.refusalOfFile(limits))
        #expect(refusal.code == .limitExceeded)
        #expect(refusal.detail.contains("6 connections and files in transit"))
        #expect(registry.join(.stranger, limits) != nil)
        #expect(registry.admit(.stranger, limits) == nil)
        let own = try #require(registry.join(.own, limits))
        #expect(registry.admit(.own, limits) != nil)
        #expect(own.refusalOfFile(limits) == nil)
    }

    @Test("the only large reply of a user is never refused; others must fit into the limit")
    func reservations() throws {
        let table = UserUsageTable()
        let usage = try #require(table.join(.stranger, Self.limits))
        usage.charge(200)
        var first: ReplyReservation? = try usage.reserveReply(1000, Self.limits)
        usage.charge(-200)
        let refused = #expect(throws: UsageRefusal.self) { try usage.reserveReply(1, Self.limits) }
        #expect(refused?.error.code == .limitExceeded)
        #expect(refused?.error.detail.contains("limits.queuedBytesPerUser") == true)
        #expect(usage.reservedBytes == 1000)
        #expect(!usage.exceedsQueuedBytes(Self.limits, without: first?.bytes ?? 0))
        // A task can build a reply after its client has disconnected. The user then stays known.
        table.leave(usage)
        #expect(table.join(.stranger, Self.limits) === usage)
        first = nil
        #expect(usage.reservedBytes == 0 && !usage.exceedsQueuedBytes(Self.limits))
        let second = try usage.reserveReply(60, Self.limits)
        let third = try usage.reserveReply(40, Self.limits)
        #expect(throws: UsageRefusal.self) { try usage.reserveReply(1, Self.limits) }
        #expect(throws: UsageRefusal.self) { try second.resize(to: 61, Self.limits) }
        #expect(usage.reservedBytes == 100 && second.bytes == 60)
        try second.resize(to: 10, Self.limits)
        try third.resize(to: 90, Self.limits)
        #expect(usage.reservedBytes == 100)
        // Memory that is in use is counted even above the limit.
        second.adjust(to: 20)
        #expect(usage.reservedBytes == 110 && usage.exceedsQueuedBytes(Self.limits))
        second.adjust(to: 5)
        #expect(usage.reservedBytes == 95 && !usage.exceedsQueuedBytes(Self.limits))
        withExtendedLifetime((second, third)) {}
    }

    @Test("bytes that another thread reserves or releases at the same time do not count as queued")
    func reservationsOfOtherThreads() async throws {
        let table = UserUsageTable()
        let usage = try #require(table.join(.stranger, Self.limits))
        let isChecked = Atomic(false)
        var wrong = 0
        await withCheckedContinuation { ended in
            Thread.detachNewThread {
                while !isChecked.load(ordering: .relaxed) {
                    withExtendedLifetime(try? usage.reserveReply(1000, Self.limits)) {}
                }
                ended.resume()
            }
            wrong = (0..<200_000).count { _ in usage.exceedsQueuedBytesWithoutReservations(Self.limits) }
            isChecked.store(true, ordering: .relaxed)
        }
        #expect(wrong == 0)
        let reservation = try usage.reserveReply(1000, Self.limits)
        usage.charge(100)
        #expect(!usage.exceedsQueuedBytesWithoutReservations(Self.limits))
        usage.charge(1)
        #expect(usage.exceedsQueuedBytesWithoutReservations(Self.limits))
        withExtendedLifetime(reservation) {}
    }

    @Test("buffered bytes are limited for every user, even the agent's own")
    func bytes() throws {
        let table = UserUsageTable()
        for peer in [PeerCredentials.stranger, .own] {
            let usage = try #require(table.join(peer, Self.limits))
            usage.charge(100)
            #expect(!usage.exceedsQueuedBytes(Self.limits))
            usage.charge(1)
            #expect(usage.exceedsQueuedBytes(Self.limits))
            #expect(usage.queuedBytesExceeded(Self.limits).error.detail.contains("limits.queuedBytesPerUser"))
            usage.charge(-1)
            #expect(!usage.exceedsQueuedBytes(Self.limits))
        }
    }
}
