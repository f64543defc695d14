import Foundation
import LarderJSON
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("The publication of snapshots")
struct ConfigPublicationTests {
    private static let status = StatusRecord(NamespaceStatus(source: nil), holding: Layers())

    private static func snapshot(_ revision: Int) -> ConfigSnapshot {
        ConfigSnapshot(value: .emptyObject, revision: revision, publishedAt: 0)
    }

    @Test("followers may be cancelled at any moment while others publish, and nobody waits for ever")
    func cancellationWhilePublishing() async {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let rounds = 20_000
        let ended = DispatchSemaphore(value: 0)
        // Threads of their own: when they wait for each other, the test must still be able to say so.
        Thread.detachNewThread {
            for round in 1...rounds { publication.publish(Self.snapshot(round), status: Self.status) }
            ended.signal()
        }
        for _ in 0..<2 {
            Thread.detachNewThread {
                for _ in 0..<rounds {
                    let follower = Task { for await _ in publication.follow() {} }
                    sched_yield()
                    follower.cancel()
                }
                ended.signal()
            }
        }
        // On a thread that runs no tasks: those that would report an issue may be the ones that wait.
        let isEverybodyDone = await withCheckedContinuation { done in
            Thread.detachNewThread {
                let patience = DispatchTime.now() + 600
                done.resume(returning: (0..<3).allSatisfy { _ in ended.wait(timeout: patience) == .success })
            }
        }
        #expect(isEverybodyDone, "a publisher and a cancelled follower wait for each other")
    }

    @Test("an observer of the state is told of each other state, and of no snapshot without one")
    func freshness() {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let reported = Mutex<[Freshness]>([])
        publication.observeFreshness { freshness in reported.withLock { $0.append(freshness) } }
        var status = NamespaceStatus(source: nil)
        func record() -> StatusRecord { StatusRecord(status, holding: Layers()) }
        publication.publish(Self.snapshot(1), status: record())
        status.filesRead(.host, problem: "broken", now: 1)
        publication.update(record())
        publication.update(record())
        status.filesRead(.host, problem: nil, now: 2)
        publication.publish(Self.snapshot(2), status: record())
        publication.end()
        #expect(reported.withLock { $0 } == [.fresh, .stale, .fresh])
    }

    @Test("a follower that begins while others publish ends on the last snapshot and never goes back")
    func lateFollower() async {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let last = 5000
        let followers = (0..<8).map { _ in
            Task {
                var revision = -1
                for await current in publication.follow() {
                    #expect(current.snapshot.revision > revision)
                    revision = current.snapshot.revision
                    if revision == last { break }
                }
                return revision
            }
        }
        Thread.detachNewThread {
            for revision in 1...last { publication.publish(Self.snapshot(revision), status: Self.status) }
        }
        for follower in followers { #expect(await follower.value == last) }
    }

    @Test("an observer is told at once, of each publication and of the end, and nothing once it is removed")
    func observers() {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let seen = Mutex<[Int]>([])
        let note: @Sendable () -> Void = {
            let current = publication.current
            seen.withLock { $0.append(current.hasEnded ? -1 : current.snapshot.revision) }
        }
        let first = publication.observe(note)
        publication.publish(Self.snapshot(1), status: Self.status)
        let second = publication.observe {}
        publication.remove(first)
        publication.publish(Self.snapshot(2), status: Self.status)
        #expect(seen.withLock { $0 } == [0, 1])
        publication.remove(second)
        _ = publication.observe(note)
        publication.end()
        publication.end()
        #expect(seen.withLock { $0 } == [0, 1, 2, -1])
        _ = publication.observe(note)
        #expect(seen.withLock { $0 } == [0, 1, 2, -1, -1])
    }
}
