import LarderEncoding
import LarderJSON
import LarderPlatform
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Rollback")
struct RollbackTests {
    private static let path = JSONPath(["n"])

    /// Calls `body` with a store that published version 1 as revision 1 and version 2 as revision 2.
    private func withTwoVersions(
        _ body: (ConfigStore, ConfigRefreshService, ScriptedSource) async throws -> Void
    ) async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            for number in 1...2 {
                let commit = try await answer(
                    refresher, source, ["v": .int(number)], version: "\(number)"
                ).commit
                #expect(commit.revision == number)
            }
            try await body(store, refresher, source)
        }
    }

    private func answer(
        _ refresher: ConfigRefreshService, _ source: ScriptedSource, _ document: JSONValue, version: String?,
        force: Bool = false
    ) async throws -> ConfigRefreshService.Outcome {
        async let outcome = force ? refresher.forceRefresh() : refresher.refreshIfNeeded()
        await source.nextRequest().answer(document, version: version)
        return try await outcome
    }

    @Test("a rollback publishes old content as a new revision, held until a document newer than the rejected one")
    func held() async throws {
        try await withTwoVersions { (store, refresher, source) async throws in
            let commit = try await store.rollBack(toRevision: 1, by: nil)
            #expect(commit.revision == 3 && commit.changed && commit.isHeld)
            #expect(store.value == ["v": 1])
            let hold = store.publication.status.hold
            #expect(hold?.revision == 1 && hold?.rejected?.version?.text == "2")
            #expect(store.publication.status.upstreamVersion == "2", "the live document is still recorded")

            // The source sends the rejected version again, then the same version with other content, and then an older
            // version.
            _ = try await answer(refresher, source, ["v": 2], version: "2")
            _ = try await answer(refresher, source, ["v": 22], version: "2")
            await #expect(throws: ConfigError.self) { try await answer(refresher, source, ["v": 0], version: "1") }
            #expect(store.value == ["v": 1] && store.revision == 3)
            #expect(store.publication.status.hold != nil)

            _ = try await answer(refresher, source, ["v": 3], version: "3")
            #expect(store.value == ["v": 3] && store.revision == 4)
            #expect(store.publication.status.hold == nil)
            let past = await store.pastSnapshots()
            #expect(past.flatMap(\.causes).map(\.kind) == [.refresh, .rollback, .refresh, .refresh])
            #expect(past.map(\.upstreamVersion) == ["3", "1", "2", "1"])
        }
    }

    @Test(
        "a document that is not known to be newer does not end a hold",
        arguments: [
            [nil, nil, nil], ["1", nil, "3"], ["1", "2", nil], ["1", "2", "9fceb02"], ["1", "9fceb02", "3"],
            ["5be4f83", "9fceb02", "e83c516"], ["5be4f83", "1234567", "7654321"],
        ] as [[String?]])
    func unknownOrder(versions: [String?]) async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            for number in 1...2 {
                _ = try await answer(refresher, source, ["v": .int(number)], version: versions[number - 1])
            }
            _ = try await store.rollBack(toRevision: 1, by: nil)
            // This document may be a correction of the rejected one, but its version does not show that.
            _ = try await answer(refresher, source, ["v": 2, "w": 1], version: versions[2])
            #expect(store.value == ["v": 1])
            #expect(store.publication.status.hold?.layers == [.remote])
            _ = try await store.release(by: nil)
            #expect(store.value == ["v": 2, "w": 1])
        }
    }

    @Test("a hold of a file layer does not end with a newer document of the source")
    func files() async throws {
        try await withTwoVersions { (store, refresher, source) async throws in
            _ = try await store.replaceFiles(.host, with: ["h": "bad"])
            let peer = Peer(pid: 42, uid: 1000, command: "larder")
            let commit = try await store.rollBack(toRevision: 2, by: peer)
            #expect(commit.hold == .untilReleased)
            _ = try await answer(refresher, source, ["v": 3], version: "3")
            #expect(store.value == ["v": 3])
            let hold = try #require(store.publication.status.hold)
            #expect(hold.layers == [.host] && hold.rule == .untilReleased && hold.peer == peer)
            #expect(hold.reason.contains("files have no versions"))
        }
    }

    @Test("a rollback can request either hold rule", arguments: [HoldRule.untilNewer, .untilReleased])
    func rule(rule: HoldRule) async throws {
        try await withTwoVersions { (store, refresher, source) async throws in
            let commit = try await store.rollBack(toRevision: 1, hold: rule, by: nil)
            #expect(commit.hold == rule)
            let reason = try #require(store.publication.status.hold).reason
            #expect(
                reason
                    == (rule == .untilNewer ? "the versions of the source can be ordered" : "the rollback requested it")
            )
            _ = try await answer(refresher, source, ["v": 3], version: "3")
            #expect(store.value == (rule == .untilNewer ? ["v": 3] : ["v": 1]))
            #expect((store.publication.status.hold == nil) == (rule == .untilNewer))
        }
    }

    @Test("if documents have no versions, an `untilNewer` hold ends with any document except the rejected one")
    func withoutVersions() async throws {
        try await StoreFixture().withFlow { (store, refresher, source) async throws in
            for number in 1...2 { _ = try await answer(refresher, source, ["v": .int(number)], version: nil) }
            _ = try await store.rollBack(toRevision: 1, hold: .untilNewer, by: nil)
            _ = try await answer(refresher, source, ["v": 2], version: nil)
            #expect(store.value == ["v": 1])
            _ = try await answer(refresher, source, ["v": 1], version: nil)
            #expect(store.value == ["v": 1])
            #expect(store.publication.status.hold == nil, "the source has returned to the restored document")
            #expect(store.revision == 3)
        }
    }

    @Test("releasing a hold publishes the current document of the source")
    func release() async throws {
        try await withTwoVersions { (store, refresher, source) async throws in
            _ = try await store.rollBack(toRevision: 1, by: nil)
            _ = try await answer(refresher, source, ["v": 22], version: "2")
            let commit = try await store.release(by: nil)
            #expect(commit.changed && !commit.isHeld)
            #expect(store.value == ["v": 22])
            #expect(try await !store.release(by: nil).changed)
        }
    }

    @Test("a forced refresh or push ends the hold even with the rejected version", arguments: [true, false])
    func forced(push: Bool) async throws {
        try await withTwoVersions { (store, refresher, source) async throws in
            _ = try await store.rollBack(toRevision: 1, by: nil)
            if push {
                let document = SourceDocument(value: ["v": 2], version: UpstreamVersion("2"))
                #expect(try await !refresher.applyPushedConfig(document, force: false).commit.changed)
                #expect(try await refresher.applyPushedConfig(document, force: true).commit.changed)
            } else {
                #expect(try await answer(refresher, source, ["v": 2], version: "2", force: true).commit.changed)
            }
            #expect(store.value == ["v": 2])
            #expect(store.publication.status.hold == nil)
        }
    }

    @Test("a rollback replaces the overrides but does not hold them, and holds no layer if only overrides differ")
    func overrides() async throws {
        try await withTwoVersions { (store, refresher, source) async throws in
            let first = try await store.set(Self.path, to: 1, timeToLive: nil).revision
            _ = try await store.set(Self.path, to: 2, timeToLive: nil)
            let commit = try await store.rollBack(toRevision: first, by: nil)
            #expect(commit.changed && !commit.isHeld)
            #expect(store.value == ["v": 2, "n": 1])
            _ = try await answer(refresher, source, ["v": 3], version: "3")
            #expect(store.value == ["v": 3, "n": 1])
        }
    }

    @Test("a rollback does not hold a layer that it leaves unchanged, so later changes of that layer have an effect")
    func hostStaysLive() async throws {
        try await withTwoVersions { (store, _, _) async throws in
            _ = try await store.rollBack(toRevision: 1, by: nil)
            _ = try await store.replaceFiles(.host, with: ["h": 1])
            #expect(store.value == ["h": 1, "v": 1])
            // This rollback also holds the host layer, because the layer has changed since revision 2.
            _ = try await store.rollBack(toRevision: 2, by: nil)
            #expect(store.value == ["v": 2])
            _ = try await store.replaceFiles(.host, with: ["h": 2])
            #expect(store.value == ["v": 2])
            _ = try await store.release(by: nil)
            #expect(store.value == ["h": 2, "v": 2])
        }
    }

    @Test("a second rollback can restore the rejected content, and a third the previously held content")
    func again() async throws {
        try await withTwoVersions { (store, _, _) async throws in
            #expect(try await store.rollBack(toRevision: 1, by: nil).isHeld)
            #expect(try await !store.rollBack(toRevision: 2, by: nil).isHeld)
            #expect(store.value == ["v": 2])
            #expect(try await store.rollBack(toRevision: 3, by: nil).isHeld)
            #expect(store.value == ["v": 1])
            #expect(store.publication.status.hold?.revision == 3)
        }
    }

    @Test("a rollback does not restore an override that has expired since")
    func ended() async throws {
        let clock = ManualClock()
        var fixture = StoreFixture.local(clock: clock)
        fixture.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
        defer { fixture.remove() }
        let store = try await fixture.open()
        _ = try await store.set(Self.path, to: 1, timeToLive: .seconds(10))
        let both = try await store.set(JSONPath(["m"]), to: 1, timeToLive: nil).revision
        clock.advance(by: .seconds(20))
        _ = try await store.expireOverrides()
        _ = try await store.rollBack(toRevision: both, by: nil)
        #expect(store.value == ["m": 1])
        await store.stop()
    }

    @Test("a rollback to an unknown revision is rejected, and the error lists the known ones", arguments: [0, 77])
    func unknown(revision: Int) async throws {
        try await withTwoVersions { (store, _, _) async throws in
            let error = await #expect(throws: ConfigError.self) {
                try await store.rollBack(toRevision: revision, by: nil)
            }
            #expect(error?.code == .notFound)
            #expect(error?.message.contains("1, 2") ?? false)
            #expect(store.revision == 2)
        }
    }

    @Test("a hold and its end survive a stop and a crash", arguments: [true, false])
    func restart(isCrash: Bool) async throws {
        var fixture = StoreFixture()
        // The test never advances this clock, so no generation is written in the background.
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let first = try await fixture.open()
        for number in 1...2 {
            let document = SourceDocument(value: ["v": .int(number)], version: UpstreamVersion("\(number)"))
            _ = try await first.replaceRemote(document, origin: SourceOrigin.push, force: false, isPush: true)
        }
        _ = try await first.rollBack(toRevision: 1, by: nil)
        if !isCrash { await first.stop() }
        let second = try await fixture.open()
        #expect(second.value == ["v": 1] && second.revision == 3)
        #expect(second.publication.status.hold?.rejected?.version?.text == "2")
        let rejected = SourceDocument(value: ["v": 2], version: UpstreamVersion("2"))
        _ = try await second.replaceRemote(rejected, origin: SourceOrigin.push, force: false, isPush: true)
        #expect(second.value == ["v": 1])
        _ = try await second.release(by: nil)
        #expect(second.value == ["v": 2] && second.revision == 4)
        if !isCrash { await second.stop() }
        let third = try await fixture.open()
        #expect(third.value == ["v": 2] && third.revision == 4)
        #expect(third.publication.status.hold == nil)
        #expect(await third.pastSnapshots().map(\.revision) == [4, 3, 2, 1])
        await third.stop()
    }

    @Test(
        "a hold still recognizes the rejected document after a crash that lost this document",
        arguments: [("2", "2"), (nil, nil)] as [(String?, String?)])
    func rejectedIsRemembered(version: String?, again: String?) async throws {
        var fixture = StoreFixture()
        // The test never advances this clock, so no generation is written in the background.
        fixture.clock = ManualClock()
        defer { fixture.remove() }
        let first = try await fixture.open()
        func take(_ document: JSONValue, _ version: String?, into store: ConfigStore) async throws {
            let document = SourceDocument(value: document, version: version.map(UpstreamVersion.init))
            _ = try await store.replaceRemote(document, origin: "scripted:source", force: false, isPush: false)
        }
        try await take(["v": 1], version == nil ? nil : "1", into: first)
        try await take(["v": 2], version, into: first)
        _ = try await first.rollBack(toRevision: 1, hold: .untilNewer, by: nil)
        let second = try await fixture.open()
        #expect(second.value == ["v": 1])
        try await take(["v": 2], again, into: second)
        #expect(second.value == ["v": 1])
        #expect(second.publication.status.hold != nil)
        try await take(["v": 3], version == nil ? nil : "3", into: second)
        #expect(second.value == ["v": 3])
        await second.stop()
    }
}
