import LarderConfigModel
import LarderEventLoop
import LarderJSON
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("Snapshot channels", .timeLimit(.minutes(15)))
struct SnapshotChannelTests {
    private static let status = PublishedStatus(NamespaceStatus(source: nil), holding: Layers())

    private static func publication(_ namespace: String = "default") -> ConfigPublication {
        ConfigPublication(namespace: namespace, epoch: "e", snapshot: snapshot(0), status: status)
    }

    private static func snapshot(_ revision: Int) -> ConfigSnapshot {
        ConfigSnapshot(value: ["a": .int(revision)], revision: revision, publishedAt: 0)
    }

    /// Runs `body` with an event loop, the subscription hub of the loop, and one topic for each publication.
    private static func with(
        _ publications: [ConfigPublication],
        _ body: (EpollLoop, NIOLoopBound<(SubscriptionHub, [Topic])>) async throws -> Void
    ) async throws {
        let loop = try EpollLoop(name: "channel")
        defer { loop.stop() }
        let bound = try await loop.submit {
            let hub = SubscriptionHub(eventLoop: loop)
            let topics = try publications.map { hub.topic(try JSONPath(parsing: "a"), of: $0) }
            return NIOLoopBound((hub, topics), eventLoop: loop)
        }.get()
        try await body(loop, bound)
        try await loop.submit {
            for topic in bound.value.1 { topic.channel.removeIfUnused(topic) }
        }.get()
    }

    @Test(
        "a snapshot published by another thread arrives before work that is submitted to the loop later")
    func noOtherThread() async throws {
        let publication = Self.publication()
        try await Self.with([publication]) { loop, bound in
            // If any step of the delivery ran on another thread, some of these revisions would arrive after the
            // submitted work.
            for revision in 1...2000 {
                publication.publish(Self.snapshot(revision), status: Self.status)
                let seen = try await loop.submit { bound.value.1[0].channel.revision }.get()
                try #require(seen == revision)
            }
        }
    }

    @Test("a task whose preferred executor is the loop consumes a stream of snapshots entirely on the loop")
    func onTheLoop() async throws {
        let publication = Self.publication()
        let loop = try EpollLoop(name: "channel")
        let snapshots = publication.snapshots()
        let consumer = Task(executorPreference: LoopTaskExecutor(loop)) {
            var (steps, strayed) = (0, 0)
            for await _ in snapshots {
                steps += 1
                if !loop.inEventLoop { strayed += 1 }
            }
            return (steps, loop.inEventLoop ? strayed : -1)
        }
        for revision in 1...1000 {
            publication.publish(Self.snapshot(revision), status: Self.status)
            if revision.isMultiple(of: 10) { try await loop.submit {}.get() }
        }
        publication.end()
        let (steps, strayed) = await consumer.value
        #expect(steps >= 100 && strayed == 0)
        loop.stop()
    }

    @Test("a snapshot that a task on the loop publishes is delivered before `publish` returns")
    func inPlace() async throws {
        let publications = [Self.publication("one"), Self.publication("two")]
        try await Self.with(publications) { loop, bound in
            let missed = await Task(executorPreference: LoopTaskExecutor(loop)) {
                var missed = 0
                for revision in 1...1000 {
                    for publication in publications {
                        publication.publish(Self.snapshot(revision), status: Self.status)
                    }
                    for topic in bound.value.1 where topic.channel.revision != revision {
                        missed += 1
                    }
                    if revision.isMultiple(of: 100) { await Task.yield() }
                }
                return missed
            }.value
            #expect(missed == 0)
        }
    }

    @Test(
        "a channel gets the last snapshot although several threads publish and other channels start and stop"
    )
    func stress() async throws {
        let publication = Self.publication()
        let last = 3000
        try await Self.with([publication]) { loop, bound in
            // Publishes one revision at a time, as the store does, on the loop or on another thread.
            let publisher = Task {
                var generator = SeededGenerator()
                for revision in 1...last {
                    if Bool.random(using: &generator) {
                        await Task(executorPreference: LoopTaskExecutor(loop)) {
                            publication.publish(Self.snapshot(revision), status: Self.status)
                        }.value
                    } else {
                        publication.publish(Self.snapshot(revision), status: Self.status)
                    }
                }
            }
            let isDone = Atomic(false)
            async let end: Void = {
                await publisher.value
                isDone.store(true, ordering: .releasing)
            }()
            var previous = 0
            while !isDone.load(ordering: .acquiring) {
                let revision = try await loop.submit { () -> Int in
                    // A second hub starts a channel and stops it at once, before or after the channel has consumed its
                    // first snapshot.
                    let hub = SubscriptionHub(eventLoop: loop)
                    let topic = hub.topic(JSONPath(["b"]), of: publication)
                    topic.channel.removeIfUnused(topic)
                    return bound.value.1[0].channel.revision
                }.get()
                #expect(revision >= previous)
                previous = revision
            }
            await end
            #expect(try await loop.submit { bound.value.1[0].channel.revision }.get() == last)
        }
        while publication.streamCount > 0 { await Task.yield() }
    }

    @Test("a removed channel delivers no more snapshots, even if it has delivered one inside `publish` before")
    func stoppedInPlace() async throws {
        let publication = Self.publication()
        try await Self.with([publication]) { loop, bound in
            let revisions = await Task(executorPreference: LoopTaskExecutor(loop)) {
                let topics = bound.value.1
                let channel = topics[0].channel
                publication.publish(Self.snapshot(1), status: Self.status)
                let first = channel.revision
                topics[0].channel.removeIfUnused(topics[0])
                publication.publish(Self.snapshot(2), status: Self.status)
                return [first, channel.revision]
            }.value
            #expect(revisions == [1, 1])
        }
    }
}
