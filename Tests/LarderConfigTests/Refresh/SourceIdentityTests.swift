import LarderHTTPSemantics
import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

/// The sources of these tests have the same location and different identities.
@Suite("Identity of a source")
struct SourceIdentityTests {
    private func document(version: String, of source: String?) -> SourceDocument {
        var document = SourceDocument(
            value: ["version": .string(version)], version: UpstreamVersion(version),
            validator: Validator(etag: "\"\(version)\""))
        document.source = source
        return document
    }

    @Test("validators and seen versions of another source at the same location are not used")
    func otherSource() async throws {
        let first = ScriptedSource(identity: "sha256:1")
        try await StoreFixture().withFlow(first) { store, refresher, source in
            var refresh = Task.immediate { try await refresher.refreshIfNeeded() }
            await source.nextRequest().answer(["v": 1], version: "15", etag: "\"a\"")
            _ = try await refresh.value
            refresh = Task.immediate { try await refresher.refreshIfNeeded() }
            let conditional = await source.nextRequest()
            #expect(conditional.validator?.etag == "\"a\"")
            conditional.answerNotModified()
            _ = try await refresh.value

            let second = ScriptedSource(identity: "sha256:2")
            await refresher.use(second)
            refresh = Task.immediate { try await refresher.refreshIfNeeded() }
            let request = await second.nextRequest()
            #expect(request.validator == nil)
            request.answer(["v": 2], version: "3", requirement: .onceSeen)
            _ = try await refresh.value
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a rejected document of another source at the same location is forgotten")
    func status() {
        var status = NamespaceStatus(source: .init("http", at: "http://h/a", identity: "sha256:1"))
        status.rejected(nil, ConfigError(.rejected, "x"), now: 1)
        let same = NamespaceStatus(source: .init("http", at: "http://h/b", identity: "sha256:1"))
        #expect(same.continuing(status, layers: Layers(), now: 2).rejected != nil)
        let other = NamespaceStatus(source: .init("http", at: "http://h/a", identity: "sha256:2"))
        #expect(other.continuing(status, layers: Layers(), now: 2).rejected == nil)
    }

    @Test("state of an earlier version adopts the identity of the source at its location, once")
    func adoption() async throws {
        var fixture = StoreFixture()
        defer { fixture.remove() }
        let location = "scripted:source"
        var store = try await fixture.open()
        // Earlier versions identified a source by its location.
        _ = try await store.replaceRemote(
            document(version: "15", of: nil), origin: location, force: false, isPush: false)
        let revision = store.revision
        await store.stop()

        fixture.identity = "sha256:1"
        store = try await fixture.open()
        #expect(store.revision == revision)
        #expect(await store.validator(ofSource: "sha256:1")?.etag == "\"15\"")
        #expect(await store.layers.remote?.seenVersions.source == "sha256:1")
        let older = await #expect(throws: ConfigError.self) {
            try await store.replaceRemote(
                document(version: "14", of: "sha256:1"), origin: location, force: false, isPush: false)
        }
        #expect(older?.code == .rejected)
        await store.stop()

        // The adopted identity is on disk, so other settings for the same location do not adopt it again.
        fixture.identity = "sha256:2"
        store = try await fixture.open()
        #expect(store.revision == revision)
        #expect(await store.validator(ofSource: "sha256:2") == nil)
        _ = try await store.replaceRemote(
            document(version: "14", of: "sha256:2"), origin: location, force: false, isPush: false)
        #expect(store.value == ["version": "14"])
        await store.stop()
    }
}
