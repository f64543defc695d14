import ConfigTestSupport
import LarderConfigModel
import LarderPlatform
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfig

@Suite("Problems of namespaces outside their sources", .timeLimit(.minutes(15)))
struct NamespaceProblemsTests {
    private let scratch: ScratchDirectory

    init() throws { scratch = try ScratchDirectory() }

    private func withNamespaces(
        _ configurations: [NamespaceConfiguration], _ body: (ConfigNamespaces, ManualClock) async throws -> Void
    ) async throws {
        let fetcher = HTTPFetcher(configuration: .init(version: "1"))
        let clock = ManualClock()
        let namespaces = try await ConfigNamespaces(
            configurations, stateDirectory: scratch.at("state"), threads: SharedThreads.pool, fetcher: fetcher,
            hostIdentity: "host", clock: clock, generator: SeededGenerator(seed: 1), logger: .silent)
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
            #expect(publication.statusRecord.isUnwritable)
            namespaces.start()
            try scratch.remove(copy)
            while publication.status.writeError != nil {
                clock.advance(by: .seconds(5))
                await Task.yield()
            }
            #expect(scratch.text(copy) != nil)
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
