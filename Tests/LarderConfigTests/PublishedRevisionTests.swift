import Foundation
import JSON
import LarderUpstream
import Testing

@testable import LarderConfig

/// A directory in memory, where what is noted outlives an agent.
private let memory = "/dev/shm"

@Suite("The revision that was published last")
struct PublishedRevisionTests {
    private static let epoch = "00ff00ff00ff00ff"

    private static func withDirectory<R>(
        under parent: String = memory, _ body: (String) async throws -> R
    ) async throws -> R {
        let directory = parent + "/larder-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        return try await body(directory)
    }

    @Test("is known after its process, to whom the epoch and the reserved bound are the same")
    func readBack() async throws {
        try await Self.withDirectory { directory in
            let first = PublishedRevision(directory: directory, namespace: "a", epoch: Self.epoch)
            #expect(first.last(reservedBound: 1025) == nil)
            for revision in [7, 1 << 53, 8] { first.note(revision, reservedBound: 1025) }
            let next = PublishedRevision(directory: directory, namespace: "a", epoch: Self.epoch)
            #expect(next.last(reservedBound: 1025) == 8)
            #expect(next.last(reservedBound: 2049) == nil)
            #expect(
                PublishedRevision(directory: directory, namespace: "a", epoch: "00ff00ff00ff00fe")
                    .last(reservedBound: 1025) == nil)
            #expect(
                PublishedRevision(directory: directory, namespace: "b", epoch: Self.epoch).last(reservedBound: 1025)
                    == nil)
        }
    }

    @Test("is not believed where somebody else could have written it", arguments: [0o777, 0o770, 0o720])
    func foreign(mode: Int) async throws {
        try await Self.withDirectory { directory in
            let published = PublishedRevision(directory: directory, namespace: "a", epoch: Self.epoch)
            published.note(7, reservedBound: 0)
            #expect(published.last(reservedBound: 0) == 7)
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: directory)
            #expect(published.last(reservedBound: 0) == nil)
        }
    }

    @Test(
        "is not believed where it is not what this program writes",
        arguments: ["", "7\n", "x", "00ff00ff00ff00ff 0 -1"])
    func garbage(text: String) async throws {
        try await Self.withDirectory { directory in
            let published = PublishedRevision(directory: directory, namespace: "a", epoch: Self.epoch)
            published.note(7, reservedBound: 0)
            let padded = text + String(repeating: " ", count: 63 - text.utf8.count) + "\n"
            for content in [text, padded] {
                try Data(content.utf8).write(to: URL(filePath: directory + "/a"))
                #expect(published.last(reservedBound: 0) == nil)
            }
        }
    }

    @Test("a crash of the agent leaves every revision what it was, also of what came from a source")
    func crash() async throws {
        try await Self.withDirectory { directory in
            var fixture = StoreFixture()
            defer { fixture.remove() }
            fixture.runtimeDirectory = directory
            var keptAlive: [ConfigStore] = []
            var revision = 0
            for round in 1...10 {
                // The store before is left as a crash leaves it: nothing is stopped for it.
                let store = try await fixture.open()
                #expect(store.revision == revision)
                if round > 1 { #expect(store.value == ["n": .int(round - 1)]) }
                let document = SourceDocument(value: ["n": .int(round)])
                revision =
                    try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
                    .revision
                #expect(revision == round)
                try await store.writeNow()
                keptAlive.append(store)
            }
        }
    }

    @Test("what was published and is lost with a crash is followed by the next number")
    func lost() async throws {
        try await Self.withDirectory { directory in
            var fixture = StoreFixture()
            // Nothing is written behind while this clock stands still.
            fixture.clock = ManualClock()
            defer { fixture.remove() }
            fixture.runtimeDirectory = directory
            let store = try await fixture.open()
            for number in 1...3 {
                let document = SourceDocument(value: ["n": .int(number)])
                _ = try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
            }
            #expect(store.revision == 3)
            // Nothing of it is left to be served. A second start knows as much as the first.
            let unanswered = try await fixture.open()
            #expect(unanswered.revision == 0)
            let next = try await fixture.open()
            #expect(next.revision == 0)
            let document = SourceDocument(value: ["n": 4])
            let commit = try await next.replaceRemote(
                document, origin: "scripted:source", force: false, isPush: false)
            #expect(commit.revision == 4)
            withExtendedLifetime((store, unanswered)) {}
        }
    }

    @Test("an agent that notes nothing in between is found out by what it reserved")
    func otherAgentBetween() async throws {
        try await Self.withDirectory { directory in
            var fixture = StoreFixture()
            defer { fixture.remove() }
            var keptAlive: [ConfigStore] = []
            var seen = 0
            for isNoted in [true, false, true] {
                fixture.runtimeDirectory = isNoted ? directory : nil
                let store = try await fixture.open()
                #expect(store.revision == 0 || store.revision >= seen)
                let document = SourceDocument(value: ["n": .int(seen)])
                seen =
                    try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
                    .revision
                // What the second one published never came to the disk.
                if isNoted { try await store.writeNow() }
                keptAlive.append(store)
            }
            #expect(seen > 1024)
        }
    }
}
