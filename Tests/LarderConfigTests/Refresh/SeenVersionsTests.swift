import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Seen versions")
struct SeenVersionsTests {
    private typealias Answer = (value: Int, version: String?)

    /// Refreshes once for each response. Returns whether each one was accepted.
    private func accepted(
        _ answers: [Answer], _ requirement: VersionRequirement, _ refresher: ConfigRefreshService,
        _ source: ScriptedSource
    ) async throws -> [Bool] {
        var accepted: [Bool] = []
        for answer in answers {
            let refresh = Task.immediate { try await refresher.refreshIfNeeded() }
            await source.nextRequest()
                .answer(["v": .int(answer.value)], version: answer.version, requirement: requirement)
            accepted.append(await refresh.result.isSuccess)
        }
        return accepted
    }

    @Test(
        "a document without a version does not lower the highest version seen",
        arguments: [
            (.onceSeen, [true, true, false, false, true]), (.always, [false, true, false, false, true]),
            (.never, [true, true, true, false, true]),
        ] as [(VersionRequirement, [Bool])])
    func missingVersion(requirement: VersionRequirement, expected: [Bool]) async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            let answers: [Answer] = [(0, nil), (1, "15"), (2, nil), (3, "1"), (4, "16")]
            #expect(try await accepted(answers, requirement, refresher, source) == expected)
            #expect(store.value == ["v": 4])
        }
    }

    @Test("a refusal says that the version is missing or older, and names the version seen before and a fix")
    func reasons() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            _ = try await accepted([(1, "15"), (2, nil)], .onceSeen, refresher, source)
            #expect(
                store.publication.status.rejected?.reason
                    == "the document has no version, but an earlier one of this source had version 15; correct the "
                    + "source, set versionRequired to false, or use force if that is intended")
            _ = try await accepted([(3, "1")], .onceSeen, refresher, source)
            #expect(
                store.publication.status.rejected?.reason
                    == "version 1 is older than version 15, which was accepted before; use force if that is intended")
        }
        let document = SourceDocument(
            value: ["version": .null], versionPath: JSONPath(["version"]), requirement: .always, validator: nil)
        let error = #expect(throws: ConfigError.self) { try SeenVersions().check(document, from: "x") }
        #expect(
            error?.message.hasPrefix("the document has no version at /version, but the settings require one") == true)
    }

    @Test(
        "a version must be a number or a nonempty string",
        arguments: ["null", "true", #""""#, "[1]", "{}"])
    func noVersion(text: String) throws {
        let value = try JSONValue(parsing: "{\"version\":\(text)}")
        let document = SourceDocument(
            value: value, versionPath: JSONPath(["version"]), requirement: .onceSeen, validator: nil)
        #expect(document.version == nil)
    }

    @Test("the highest version still applies after a restart and after a push without a version")
    func persistence() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        func replace(_ store: ConfigStore, _ value: Int, _ version: String?) async throws {
            var document = SourceDocument(value: ["v": .int(value)], version: version.map(UpstreamVersion.init))
            document.versionRequirement = .onceSeen
            _ = try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
        }
        try await fixture.withStore { store async throws in
            try await replace(store, 1, "15")
            let push = SourceDocument(value: ["v": 2])
            _ = try await store.replaceRemote(push, origin: SourceOrigin.push, force: false, isPush: true)
        }
        try await fixture.withStore { store async throws in
            #expect(store.value == ["v": 2])
            await #expect(throws: ConfigError.self) { try await replace(store, 3, "1") }
            await #expect(throws: ConfigError.self) { try await replace(store, 3, nil) }
            try await replace(store, 4, "15")
            #expect(store.value == ["v": 4])
        }
    }

    @Test("after a push with a version, the source may omit versions until it sends one, but may not send an older one")
    func pushedVersion() async throws {
        try await StoreFixture().withFlow { (_, refresher, source) async throws in
            let push = SourceDocument(value: ["v": 0], version: UpstreamVersion("7"))
            _ = try await refresher.applyPushedConfig(push, force: false)
            let answers: [Answer] = [(1, nil), (2, "6"), (3, "7"), (4, nil)]
            #expect(try await accepted(answers, .onceSeen, refresher, source) == [true, false, true, false])
        }
    }

    @Test("a forced document without a version keeps the highest version, and a forced older version lowers it")
    func forced() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            _ = try await accepted([(1, "15")], .onceSeen, refresher, source)
            func force(_ value: Int, _ version: String?) async throws {
                let refresh = Task.immediate { try await refresher.forceRefresh() }
                await source.nextRequest().answer(["v": .int(value)], version: version, requirement: .onceSeen)
                _ = try await refresh.value
            }
            try await force(2, nil)
            #expect(try await accepted([(3, nil), (4, "14")], .onceSeen, refresher, source) == [true, false])
            try await force(5, "3")
            #expect(try await accepted([(6, "2"), (7, "4")], .onceSeen, refresher, source) == [false, true])
        }
    }

    @Test("the first document of another source needs no version")
    func otherSource() async throws {
        let fixture = StoreFixture()
        defer { fixture.remove() }
        try await fixture.withStore { store async throws in
            for (origin, version) in [("scripted:source", "15"), (SourceOrigin.push, "16"), ("scripted:other", nil)] {
                var document = SourceDocument(
                    value: ["v": .string(origin)], version: version.map(UpstreamVersion.init))
                if origin != SourceOrigin.push { document.versionRequirement = .onceSeen }
                _ = try await store.replaceRemote(
                    document, origin: origin, force: false, isPush: origin == SourceOrigin.push)
            }
            #expect(store.value == ["v": "scripted:other"])
        }
    }
}

extension Result {
    fileprivate var isSuccess: Bool {
        if case .success = self { true } else { false }
    }
}
