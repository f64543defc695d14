import ConfigTestSupport
import Glibc
import LarderConfigModel
import LarderJSON
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfig

@Suite("Problems of namespaces outside their sources", .timeLimit(.minutes(15)))
struct NamespaceProblemsTests {
    private let scratch: ScratchDirectory

    init() throws { scratch = try ScratchDirectory() }

    private func withNamespaces(
        _ configurations: [NamespaceConfiguration], files: FaultyFileSystem? = nil,
        _ body: (ConfigNamespaces, ManualClock) async throws -> Void
    ) async throws {
        let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
        let clock = ManualClock()
        let namespaces = try await ConfigNamespaces(
            configurations, stateDirectory: scratch.at("state"), threads: SharedThreads.pool, fetcher: fetcher,
            hostIdentity: "host", clock: clock, generator: SeededGenerator(seed: 1), files: files,
            logger: .silent)
        try await body(namespaces, clock)
        await namespaces.stop()
        await fetcher.shutdown()
    }

    @Test("a copy of the schema that cannot be written is a storage problem in the status until it is written")
    func schemaCopy() async throws {
        try scratch.write("true", to: "schema.json")
        let settings = NamespaceConfiguration(name: "default", schema: SchemaSettings(path: scratch.at("schema.json")))
        let copy = "state/config/default/schema.json"
        try await withNamespaces([settings]) { namespaces, _ in
            #expect(scratch.exists(copy))
            #expect(namespaces["default"]?.publication.status.writeError == nil)
        }
        // A directory in place of the file makes each write fail.
        try scratch.remove(copy)
        try scratch.makeDirectory(copy)
        try await withNamespaces([settings]) { namespaces, clock in
            let publication = try #require(namespaces["default"]).publication
            let problem = publication.status.writeError?.error
            #expect(problem?.code == .storageFailed)
            #expect(problem?.message.contains(copy) == true, "\(problem?.message ?? "no problem")")
            #expect(publication.status.isUnwritable)
            namespaces.start()
            try scratch.remove(copy)
            while publication.status.writeError != nil {
                clock.advance(by: .seconds(5))
                await Task.yield()
            }
            #expect(scratch.text(copy) != nil)
        }
    }

    @Test("a schema that is not saved yet stays in force if its file breaks, and is saved later")
    func unsavedSchema() async throws {
        try scratch.write(#"{"maximum": 1}"#, to: "schema.json")
        let files = FaultyFileSystem()
        let settings = NamespaceConfiguration(name: "default", schema: SchemaSettings(path: scratch.at("schema.json")))
        try await withNamespaces([settings], files: files) { namespaces, clock in
            let namespace = try #require(namespaces["default"])
            let publication = namespace.publication
            /// Lets the watcher settle and retries begin until the condition holds.
            func wait(until condition: () async -> Bool) async {
                while !(await condition()) {
                    clock.advance(by: .seconds(5))
                    await Task.yield()
                }
            }
            namespaces.start()
            files.failReplacements(with: ENOSPC)
            try scratch.write(#"{"maximum": 2}"#, to: "schema.json")
            await wait { await namespace.store.schema?.document == ["maximum": 2] }
            #expect(
                publication.status.writeError?.error.message.contains("the older schema in that file is in force")
                    == true)
            try scratch.write("{ bad", to: "schema.json")
            await wait { publication.status.schemaFileProblem != nil }
            #expect(await namespace.store.schema?.document == ["maximum": 2])
            #expect(publication.status.writeError != nil)
            files.failReplacements(with: nil)
            await wait { publication.status.writeError == nil }
            #expect(scratch.text("state/config/default/schema.json")?.contains(#"{"maximum":2}"#) == true)
            #expect(await namespace.store.schema?.document == ["maximum": 2])
            #expect(publication.status.schemaFileProblem != nil)
        }
    }

    @Test("changes of a schema that cannot be saved share one retry")
    func sharedRetry() async throws {
        try scratch.write(#"{"maximum": 0}"#, to: "schema.json")
        let files = FaultyFileSystem()
        let settings = NamespaceConfiguration(name: "default", schema: SchemaSettings(path: scratch.at("schema.json")))
        try await withNamespaces([settings], files: files) { namespaces, clock in
            let namespace = try #require(namespaces["default"])
            let publication = namespace.publication
            let settle = Duration.milliseconds(20)
            /// The sleeps that are longer than that of the watcher after an event, and shorter than its interval.
            func retries() -> Int {
                let now = clock.now
                return clock.deadlines.count { settle < now.duration(to: $0) && now.duration(to: $0) <= .seconds(5) }
            }
            namespaces.start()
            files.failReplacements(with: ENOSPC)
            for number in 1...4 {
                try scratch.write(#"{"maximum": \#(number)}"#, to: "schema.json")
                while await namespace.store.schema?.document.compactText != #"{"maximum":\#(number)}"# {
                    // Only the watcher continues: the retry is not due.
                    if let next = clock.nextDeadline, clock.now.duration(to: next) <= settle {
                        clock.advance(by: clock.now.duration(to: next))
                    }
                    await Task.yield()
                }
                while retries() == 0 { await Task.yield() }
            }
            // The writer of generations may wait for a retry, too.
            #expect(retries() <= 2)
            files.failReplacements(with: nil)
            while publication.status.writeError != nil {
                clock.advance(by: .seconds(5))
                await Task.yield()
            }
            #expect(scratch.text("state/config/default/schema.json")?.contains(#"{"maximum":4}"#) == true)
        }
    }

    @Test("a reload that only moves the schema in the settings corrects the line in its problem")
    func movedPlace() async throws {
        var schema = SchemaSettings(path: scratch.at("missing.json"))
        schema.place = "/etc/larder.json:3"
        var settings = NamespaceConfiguration(name: "default", schema: schema)
        try await withNamespaces([settings]) { namespaces, _ in
            let publication = try #require(namespaces["default"]).publication
            #expect(publication.status.schemaFileProblem?.hasSuffix(" (named in /etc/larder.json:3)") == true)
            namespaces.start()
            settings.schema?.place = "/etc/larder.json:7"
            await namespaces.apply([settings])
            while publication.status.schemaFileProblem?.hasSuffix(" (named in /etc/larder.json:7)") != true {
                await Task.yield()
            }
        }
    }

    @Test("namespaces that a reload cannot open are listed until a reload opens them or removes them")
    func unopened() async throws {
        let (whole, broken) = (NamespaceConfiguration(name: "default"), NamespaceConfiguration(name: "broken"))
        try await withNamespaces([whole]) { namespaces, _ in
            namespaces.start()
            #expect(namespaces.openingProblems.isEmpty)
            // A file in place of the directory.
            try scratch.write("", to: "state/config/broken")
            await namespaces.apply([whole, broken])
            #expect(namespaces.openingProblems.map(\.name) == ["broken"])
            #expect(namespaces.openingProblems.first?.problem.contains("config/broken") == true)
            #expect(namespaces.all.map(\.name) == ["default"])
            await namespaces.apply([whole])
            #expect(namespaces.openingProblems.isEmpty)
            await namespaces.apply([whole, broken])
            #expect(namespaces.openingProblems.map(\.name) == ["broken"])
            try scratch.remove("state/config/broken")
            await namespaces.apply([whole, broken])
            #expect(namespaces.openingProblems.isEmpty)
            #expect(namespaces.all.map(\.name) == ["broken", "default"])
        }
    }
}
