import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Mass deletion")
struct MassDeletionTests {
    /// A document with ten values, at any depth, that are neither objects nor null. Only these count as members.
    private static let ten: JSONValue = [
        "a": ["1": 1, "2": [2], "3": false, "deep": ["4": "x", "empty": .emptyObject]], "5": 5, "6": 6, "7": 7,
        "8": 8, "9": 9, "10": 10, "none": .null,
    ]

    @Test(
        "members that are not objects are counted, and count as removed if they are absent, null or empty",
        arguments: [
            (ten, 0), (.emptyObject, 10), (["a": .emptyObject, "x": 1], 10), (["a": 1], 10),
            (["a": ["1": ["now": "an object"]]], 9), (["a": ["1": .null, "2": .emptyObject]], 10),
            (["a": .null, "5": .null, "6": 6, "none": .null], 9),
            (["a": ["1": "", "2": [], "3": .emptyObject, "deep": ["4": ""]], "5": "", "6": ""], 10),
        ] as [(JSONValue, Int)])
    func counting(new: JSONValue, removed: Int) {
        let deletion = MassDeletion(from: Self.ten, to: new)
        #expect(deletion.members == 10)
        #expect(deletion.removed == removed)
    }

    @Test("removals up to the limit are allowed; of fewer than ten members, only the removal of all is too much")
    func threshold() {
        func exceeds(_ removed: Int, of members: Int, _ percent: Int) -> Bool {
            let old = JSONValue.object((0..<members).map { ("\($0)", .int($0)) })
            let new = JSONValue.object((removed..<members).map { ("\($0)", .int($0)) })
            return MassDeletion(from: old, to: new).exceeds(percent: percent)
        }
        #expect(!exceeds(9, of: 10, 90))
        #expect(exceeds(10, of: 10, 90))
        #expect(!exceeds(90, of: 100, 90))
        #expect(exceeds(91, of: 100, 90))
        #expect(!exceeds(8, of: 9, 0))
        #expect(exceeds(9, of: 9, 90))
        #expect(exceeds(1, of: 1, 90))
        #expect(!exceeds(9, of: 9, 100))
        #expect(!exceeds(0, of: 0, 0))
        #expect(exceeds(1, of: 10, 0))
        #expect(!exceeds(0, of: 10, 0))
        #expect(!exceeds(10, of: 10, 100))
    }

    private func withTen(
        _ body: (ConfigStore, ConfigRefreshService, ScriptedSource) async throws -> Void
    ) async throws {
        var fixture = StoreFixture()
        fixture.maximumDeletion = 50
        try await fixture.withFlow { (store, refresher, source) async throws in
            async let outcome = refresher.refreshIfNeeded()
            await source.nextRequest().answer(Self.ten, version: "1", etag: "x")
            _ = try await outcome
            try await body(store, refresher, source)
        }
    }

    @Test("a document that removes too much is rejected and reported, unless it is forced")
    func quarantine() async throws {
        try await withTen { (store, refresher, source) async throws in
            let refresh = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["5": 5], version: "2", etag: "y")
            let error = await #expect(throws: ConfigError.self) { try await refresh.value }
            #expect(error?.code == .rejected)
            #expect(error?.message.contains("9 of 10 members") ?? false)
            #expect(store.value == MergePatch.merge([Self.ten]))
            let quarantine = store.publication.status.quarantine
            #expect(quarantine?.version == "2")
            #expect(quarantine?.deletion.members == 10 && quarantine?.deletion.removed == 9)

            let forced = Task { try await refresher.forceRefresh() }
            let request = await source.nextRequest()
            #expect(request.validator == nil)
            request.answer(["5": 5], version: "2", etag: "y")
            #expect(try await forced.value.commit.changed)
            #expect(store.value == ["5": 5])
            #expect(store.publication.status.quarantine == nil)
        }
    }

    @Test("pushes are also checked, and a \"not modified\" response ends the quarantine")
    func recovery() async throws {
        try await withTen { (store, refresher, source) async throws in
            let push = SourceDocument(value: .emptyObject)
            await #expect(throws: ConfigError.self) { try await refresher.applyPushedConfig(push, force: false) }
            #expect(store.publication.status.quarantine?.deletion.removed == 10)
            let refresh = Task { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answerNotModified()
            _ = try await refresh.value
            #expect(store.publication.status.quarantine == nil)
            #expect(try await refresher.applyPushedConfig(push, force: true).commit.changed)
        }
    }

    @Test("replacing an empty value by an empty value does not count as a removal")
    func emptyBefore() {
        let old: JSONValue = ["a": "", "b": [], "c": "x"]
        #expect(MassDeletion(from: old, to: old).removed == 0)
        #expect(MassDeletion(from: old, to: ["a": [], "b": "", "c": "x"]).removed == 0)
        #expect(MassDeletion(from: old, to: ["c": ""]).removed == 3)
    }

    @Test("the only member of a document may be replaced by other content, but not removed")
    func singleMember() {
        func exceeds(_ new: JSONValue) -> Bool { MassDeletion(from: ["a": ["b": 1]], to: new).exceeds(percent: 90) }
        for new: JSONValue in [["c": 1], ["a": 2], ["a": ["c": false]]] { #expect(!exceeds(new), "\(new)") }
        for new: JSONValue in [.emptyObject, ["c": ""], ["a": .null], ["a": ["c": [], "d": .emptyObject]]] {
            #expect(exceeds(new), "\(new)")
        }
    }

    @Test("the version of a document that has nothing else is counted")
    func onlyVersion() {
        let old: JSONValue = ["version": 3]
        #expect(MassDeletion(from: old, to: .emptyObject).exceeds(percent: 90))
        #expect(!MassDeletion(from: old, to: ["version": 4]).exceeds(percent: 90))
        #expect(!MassDeletion(from: old, to: ["theme": "dark"]).exceeds(percent: 90))
    }

    @Test(
        "the version of a document is not counted, so a document of which only the version stays has lost all members",
        arguments: [
            (["version": 4], true), (["version": 4, "theme": ""], true), (.emptyObject, true),
            (["version": 4, "theme": "light"], false), (["version": ["theme": "light"]], false),
            (["theme": "dark"], false),
        ] as [(JSONValue, Bool)])
    func version(new: JSONValue, isTooMuch: Bool) {
        let old: JSONValue = ["version": 3, "theme": "dark"]
        let deletion = MassDeletion(from: old, to: new)
        #expect(deletion.members == 1)
        #expect(deletion.exceeds(percent: 90) == isTooMuch)
    }

    @Test("a document that keeps only its version is rejected, also if the settings name another path for the version")
    func onlyVersion() async throws {
        var fixture = StoreFixture()
        fixture.maximumDeletion = 90
        try await fixture.withFlow { (store, refresher, _) async throws in
            func replace(_ document: JSONValue, versionPath: [String]) async throws {
                let path = JSONPath(versionPath)
                _ = try await store.replaceRemote(
                    SourceDocument(value: document, versionPath: path, requirement: .always, validator: nil),
                    origin: "scripted:source", force: false, isPush: false)
            }
            try await replace(["meta": ["revision": 3], "a": 1, "b": 2], versionPath: ["meta", "revision"])
            let error = await #expect(throws: ConfigError.self) {
                try await replace(["meta": ["revision": 4]], versionPath: ["meta", "revision"])
            }
            #expect(error?.message.contains("2 of 2 members") == true)
            #expect(store.value["b"] == 2)
            try await replace(["meta": ["revision": 5], "b": 3], versionPath: ["meta", "revision"])
            await #expect(throws: ConfigError.self) {
                try await refresher.applyPushedConfig(SourceDocument(value: ["version": 6]), force: false)
            }
            #expect(store.value["b"] == 3)
        }
    }

    @Test("a document with few members cannot be emptied")
    func fewMembers() async throws {
        var fixture = StoreFixture()
        fixture.maximumDeletion = 90
        try await fixture.withFlow { (store, refresher, source) async throws in
            async let first = refresher.refreshIfNeeded()
            await source.nextRequest().answer(["a": 1, "o": ["b": 2]])
            _ = try await first
            for document: JSONValue in [.emptyObject, ["a": "", "o": .null], ["o": .emptyObject], ["other": 1]] {
                let refresh = Task { try await refresher.refreshIfNeeded() }
                await source.nextRequest().answer(document)
                let error = await #expect(throws: ConfigError.self) { try await refresh.value }
                #expect(error?.message.contains("2 of 2 members") == true)
            }
            #expect(store.value == ["a": 1, "o": ["b": 2]])
            async let last = refresher.refreshIfNeeded()
            await source.nextRequest().answer(["a": 1])
            #expect(try await last.commit.changed)
        }
    }

    @Test("null or empty values in place of all members count as a removal", arguments: [.null, ""] as [JSONValue])
    func nulls(value: JSONValue) async throws {
        try await withTen { (store, refresher, _) async throws in
            let push = SourceDocument(value: .object(Self.ten.members.map { ($0.name, value) }))
            await #expect(throws: ConfigError.self) { try await refresher.applyPushedConfig(push, force: false) }
            #expect(store.value == MergePatch.merge([Self.ten]))
            #expect(store.publication.status.quarantine?.deletion.removed == 10)
        }
    }

    @Test("a document of another source is checked for mass deletion, regardless of its version")
    func otherSource() async throws {
        try await withTen { (store, _, _) async throws in
            func replace(_ document: JSONValue, force: Bool = false) async throws {
                _ = try await store.replaceRemote(
                    SourceDocument(value: document, version: UpstreamVersion("0")), origin: "scripted:other",
                    force: force, isPush: false)
            }
            await #expect(throws: ConfigError.self) { try await replace(["x": 1]) }
            #expect(store.value == MergePatch.merge([Self.ten]))
            #expect(store.publication.status.quarantine?.deletion.removed == 10)
            try await replace(["x": 1], force: true)
            #expect(store.value == ["x": 1])
        }
    }
}

extension MassDeletion {
    fileprivate init(from old: JSONValue, to new: JSONValue) {
        self.init(from: old, to: new, version: JSONPath(["version"]))
    }
}
