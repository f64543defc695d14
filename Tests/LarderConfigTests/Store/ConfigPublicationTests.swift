import Foundation
import LarderJSON
import LarderPlatform
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Publication of snapshots")
struct ConfigPublicationTests {
    private static let status = PublishedStatus(NamespaceStatus(source: nil), holding: Layers())

    private static func snapshot(_ revision: Int) -> ConfigSnapshot {
        ConfigSnapshot(value: .emptyObject, revision: revision, publishedAt: 0)
    }

    @Test("cancelling consumers while snapshots are published does not deadlock")
    func cancellationWhilePublishing() async {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let rounds = 20_000
        let ended = DispatchSemaphore(value: 0)
        // The publisher and the consumers run on threads of their own, so that the test can report a deadlock between
        // them.
        Thread.detachNewThread {
            for round in 1...rounds { publication.publish(Self.snapshot(round), status: Self.status) }
            ended.signal()
        }
        for _ in 0..<2 {
            Thread.detachNewThread {
                for _ in 0..<rounds {
                    let consumer = Task { for await _ in publication.snapshots() {} }
                    sched_yield()
                    consumer.cancel()
                }
                ended.signal()
            }
        }
        // Waits on a separate thread, because the threads that run tasks may be part of the deadlock.
        let haveAllEnded = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let deadline = DispatchTime.now() + 600
                continuation.resume(returning: (0..<3).allSatisfy { _ in ended.wait(timeout: deadline) == .success })
            }
        }
        #expect(haveAllEnded, "deadlock between a publisher and a cancelled consumer")
        while publication.streamCount > 0 { await Task.yield() }
    }

    @Test("after a change of settings, a stream yields the current snapshot again, but never an older one than before")
    func readAgain() async {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(1), status: Self.status)
        let version = publication.version
        var snapshots = publication.snapshots().makeAsyncIterator()
        #expect(await snapshots.next()?.revision == 1)
        publication.readAgain()
        #expect(await snapshots.next()?.revision == 1)
        #expect(publication.version > version)
        let slot = SnapshotSlot(Self.snapshot(3), isFinished: false)
        slot.put(Self.snapshot(2))
        #expect(await slot.next()?.revision == 3)
    }

    @Test("an observer gets the current status and then only changes of freshness, refused content and writability")
    func observer() {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let reported = Mutex<[String]>([])
        publication.observeStatus { status in
            let text = [
                status.freshness.rawValue, status.isUnwritable ? "unwritable" : nil, status.rejection,
            ]
            reported.withLock { $0.append(text.compactMap { $0 }.joined(separator: " ")) }
        }
        var status = NamespaceStatus(source: nil)
        func record() -> PublishedStatus { PublishedStatus(status, holding: Layers()) }
        publication.publish(Self.snapshot(1), status: record())
        status.filesRead(.host, problem: "broken", now: 1)
        publication.update(record())
        publication.update(record())
        status.watchProblems[.host] = "no watches left"
        publication.update(record())
        status.filesRead(.host, problem: nil, now: 2)
        publication.publish(Self.snapshot(2), status: record())
        status.storageFailed(.commit, ConfigError(.storageFailed, "no space"), now: 3)
        publication.update(record())
        status.storageFailed(.generations, ConfigError(.storageFailed, "no space"), now: 3)
        publication.update(record())
        status.rejected(nil, ConfigError(.rejected, "too old"), now: 4)
        publication.update(record())
        publication.end()
        status.storageWorked(.commit)
        status.storageWorked(.generations)
        publication.update(record())
        #expect(
            reported.withLock { $0 } == ["fresh", "stale", "fresh", "fresh unwritable", "fresh unwritable too old"])
    }

    @Test("an observer that registers during a change gets the old freshness before the new one")
    func freshnessOrder() async {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let reported = Mutex<[Freshness]>([])
        let (begun, changed, reportedBoth) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchGroup())
        for _ in 0..<2 { reportedBoth.enter() }
        Thread.detachNewThread {
            publication.observeStatus { status in
                if status.freshness == .fresh {
                    begun.signal()
                    changed.wait()
                }
                reported.withLock { $0.append(status.freshness) }
                reportedBoth.leave()
            }
        }
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                begun.wait()
                var status = NamespaceStatus(source: nil)
                status.filesRead(.host, problem: "broken", now: 1)
                publication.update(PublishedStatus(status, holding: Layers()))
                changed.signal()
                reportedBoth.wait()
                continuation.resume()
            }
        }
        #expect(reported.withLock { $0 } == [.fresh, .stale])
    }

    @Test("a consumer that starts while snapshots are published gets increasing revisions, including the last")
    func lateConsumer() async {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let last = 5000
        let consumers = (0..<8).map { _ in
            Task {
                var revision = -1
                for await snapshot in publication.snapshots() {
                    #expect(snapshot.revision > revision)
                    revision = snapshot.revision
                    if revision == last { break }
                }
                return revision
            }
        }
        Thread.detachNewThread {
            for revision in 1...last { publication.publish(Self.snapshot(revision), status: Self.status) }
        }
        for consumer in consumers { #expect(await consumer.value == last) }
        #expect(publication.streamCount == 0)
    }

    @Test("a stream begins with the current snapshot, skips to the newest, and finishes when the namespace ends")
    func stream() async {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        var snapshots = publication.snapshots().makeAsyncIterator()
        #expect(await snapshots.next()?.revision == 0)
        for revision in 1...3 { publication.publish(Self.snapshot(revision), status: Self.status) }
        #expect(await snapshots.next()?.revision == 3)
        publication.publish(Self.snapshot(4), status: Self.status)
        publication.end()
        publication.end()
        #expect(await snapshots.next()?.revision == 4)
        #expect(await snapshots.next() == nil)
        #expect(await snapshots.next() == nil)
        var late = publication.snapshots().makeAsyncIterator()
        #expect(await late.next()?.revision == 4)
        #expect(await late.next() == nil)
    }

    @Test("a stream that is no longer used is removed")
    func unused() async {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        _ = publication.snapshots()
        #expect(publication.streamCount == 0)
        for await _ in publication.snapshots() { break }
        #expect(publication.streamCount == 0)
        let consumer = Task { for await _ in publication.snapshots() {} }
        while publication.streamCount == 0 { await Task.yield() }
        consumer.cancel()
        await consumer.value
        #expect(publication.streamCount == 0)
    }

    @Test("a registered signal is raised at once, then at each publication, and when the namespace ends")
    func signal() {
        let publication = ConfigPublication(
            namespace: "default", epoch: "e", snapshot: Self.snapshot(0), status: Self.status)
        let revisions = Mutex<[Int]>([])
        publication.raise(
            Signal { signal in
                signal.take()
                let current = publication.current
                revisions.withLock { $0.append(current.hasEnded ? -1 : current.snapshot.revision) }
            })
        publication.publish(Self.snapshot(1), status: Self.status)
        publication.update(Self.status)
        publication.end()
        publication.end()
        #expect(revisions.withLock { $0 } == [0, 1, -1])
    }
}
