import ConfigTestSupport
import Glibc
import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Rollouts", .timeLimit(.minutes(15)))
struct RolloutTests {
    @Test("a new document is shown to canaries, and published to all once the required client has accepted it")
    func accepted() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, driver) async throws in
            let first = try await store.push(["v": 1], "1")
            #expect(store.value == ["v": 1] && store.canary.revision == first.revision)
            let second = try await store.push(["v": 2], "2")
            #expect(!second.changed && store.value == ["v": 1] && store.revision == first.revision)
            #expect(store.canary.value == ["v": 2])
            let candidate = store.canary.revision
            #expect(candidate > store.revision)
            #expect(driver.report.progress?.revision == candidate && driver.report.progress?.version == "2")
            #expect(store.publication.status.hold == nil)
            driver.acknowledge(candidate, by: "other", client: 2)
            driver.acknowledge(candidate)
            await store.waitForEndOfRollout()
            #expect(store.value == ["v": 2] && store.revision > candidate)
            #expect(store.canary.revision == store.revision)
            #expect(driver.report.last?.end.outcome == .published && driver.report.last?.version == "2")
            #expect(await store.pastSnapshots().first?.causes.map(\.kind) == [.rolloutPublished])
        }
    }

    @Test("after a rejection, the previous document gets a revision above the candidate's, until a newer one arrives")
    func rejected() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            let candidate = store.canary.revision
            driver.acknowledge(candidate, accepted: false, reason: "too large")
            await store.waitForEndOfRollout()
            #expect(store.value == ["v": 1] && store.revision > candidate)
            #expect(store.canary.value == ["v": 1] && store.canary.revision == store.revision)
            let hold = try #require(store.publication.status.hold)
            #expect(hold.rule == .untilNewer && hold.refusedVersion == "2" && hold.reason.contains("too large"))
            #expect(driver.report.last?.end.outcome == .rolledBack)
            let cause = await store.pastSnapshots().first?.causes.first
            #expect(cause?.kind == .rolloutRolledBack && cause?.reason == "too large" && cause?.peer?.command == "app")

            _ = try await store.push(["v": 2], "2")
            #expect(store.canaries.rollout == nil)
            _ = try await store.push(["v": 3], "3")
            #expect(store.value == ["v": 1] && store.canary.value == ["v": 3])
            driver.acknowledge(store.canary.revision)
            await store.waitForEndOfRollout()
            #expect(store.value == ["v": 3] && store.publication.status.hold == nil)
        }
    }

    @Test("with `warn`, a rejected document is published, and the report has the reason")
    func warn() async throws {
        var settings = RolloutSettings(.count(1))
        settings.onRefusal = .warn
        let fixture = RolloutFixture(settings)
        defer { fixture.remove() }
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            driver.acknowledge(store.canary.revision, accepted: false, reason: "too large")
            await store.waitForEndOfRollout()
            #expect(store.value == ["v": 2])
            let end = driver.report.last?.end
            #expect(end?.outcome == .publishedAnyway && end?.reason == "too large")
        }
    }

    @Test("a document that is not accepted in time is rolled back")
    func timeout() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            let deadline = try #require(driver.report.progress?.deadline)
            #expect(deadline == 1_060_000)
            while store.canaries.rollout != nil {
                fixture.clock.advance(by: .seconds(1))
                await Task.yield()
            }
            #expect(store.value == ["v": 1])
            let last = try #require(driver.report.last)
            #expect(last.at >= deadline && last.end.reason == "app did not accept it within 60 s")
        }
    }

    @Test("a newer document replaces the candidate, and acceptances of the earlier candidate do not count")
    func twoDocuments() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            let earlier = store.canary.revision
            _ = try await store.push(["v": 3], "3")
            #expect(store.canary.value == ["v": 3] && store.canary.revision > earlier && store.value == ["v": 1])
            driver.acknowledge(earlier)
            #expect(driver.report.progress?.accepted == [])
            driver.acknowledge(store.canary.revision)
            await store.waitForEndOfRollout()
            #expect(store.value == ["v": 3])
        }
    }

    @Test("a document with the content of the one that is shown ends the rollout under a new revision")
    func withdrawn() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, _) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            let candidate = store.canary.revision
            _ = try await store.push(["v": 1], "3")
            #expect(store.canaries.rollout == nil && store.value == ["v": 1])
            #expect(store.revision > candidate && store.canary.revision == store.revision)
            #expect(store.publication.status.hold == nil)
        }
    }

    @Test("overrides are published at once during a rollout, and the candidate has them, too")
    func overrides() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            let candidate = store.canary.revision
            let set = try await store.set(JSONPath(["a"]), to: 1, timeToLive: nil)
            #expect(store.value == ["v": 1, "a": 1] && set.revision > candidate)
            #expect(store.canary.value == ["v": 2, "a": 1] && store.canary.revision > set.revision)
            driver.acknowledge(store.canary.revision)
            await store.waitForEndOfRollout()
            #expect(store.value == ["v": 2, "a": 1])
        }
    }

    @Test("a forced document ends the rollout and is published at once")
    func forced() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, _) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            _ = try await store.push(["v": 3], "3", force: true)
            #expect(store.value == ["v": 3] && store.canaries.rollout == nil)
        }
    }

    @Test("after a restart or a crash, the rollout continues under a new revision and with the same deadline")
    func restart() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        var (candidate, deadline): (Int, Int?) = (0, nil)
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            (candidate, deadline) = (store.canary.revision, driver.report.progress?.deadline)
        }
        // This store is not stopped, as in a crash.
        let crashed = try await fixture.store.open()
        // The candidate is shown before the driver runs.
        #expect(crashed.value == ["v": 1] && crashed.canary.value == ["v": 2])
        #expect(crashed.canary.revision > candidate)
        candidate = crashed.canary.revision
        try await fixture.run { (store, driver) async throws in
            while store.canaries.rollout?.candidate == nil { await Task.yield() }
            #expect(store.canary.value == ["v": 2] && store.canary.revision > candidate)
            #expect(driver.report.progress?.deadline == deadline)
            driver.acknowledge(candidate)
            driver.acknowledge(store.canary.revision)
            await store.waitForEndOfRollout()
            #expect(store.value == ["v": 2])
        }
    }

    @Test("a rollback survives a restart with its reason")
    func restartAfterRollback() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            driver.acknowledge(store.canary.revision, accepted: false, reason: "too large")
            await store.waitForEndOfRollout()
        }
        try await fixture.run { (store, _) async throws in
            #expect(store.value == ["v": 1] && store.publication.status.hold?.reason.contains("too large") == true)
        }
    }

    @Test("a client can approve or abort a rollout; without one, that fails with `notFound`")
    func byHand() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        let peer = Peer(pid: 7, uid: 0, command: "larder")
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            let error = await #expect(throws: ConfigError.self) {
                try await driver.end(isApproved: true, reason: nil, by: peer)
            }
            #expect(error?.code == .notFound)
            _ = try await store.push(["v": 2], "2")
            let abort = try await driver.end(isApproved: false, reason: "too late", by: peer)
            #expect(abort.changed && store.value == ["v": 1])
            #expect(driver.report.last?.end.reason == "too late")
            _ = try await store.push(["v": 3], "3")
            let approval = try await driver.end(isApproved: true, reason: nil, by: peer)
            #expect(approval.changed && store.value == ["v": 3])
        }
    }

    @Test("an end that cannot be stored does not replace the report of another one")
    func failedEnd() async throws {
        let files = FaultyFileSystem()
        var fixture = RolloutFixture()
        fixture.store.files = files
        defer { fixture.remove() }
        let peer = Peer(pid: 7, uid: 0, command: "larder")
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            let gate = DispatchGate()
            files.blockJournalWrites(at: gate)
            let approval = Task.immediate { try await driver.end(isApproved: true, reason: nil, by: peer) }
            await gate.waitForArrival()
            files.failWrites(with: ENOSPC)
            let abort = Task.immediate { try await driver.end(isApproved: false, reason: "too late", by: peer) }
            // The calls of `probe()` return only after the store has queued the second change.
            for _ in 0..<100 { await store.probe() }
            gate.open()
            // After the failure, the journal marks its end.
            await gate.waitForArrival()
            files.blockJournalWrites(at: nil)
            files.failWrites(with: nil)
            gate.open()
            await #expect(throws: ConfigError.self) { try await approval.value }
            #expect(try await abort.value.changed && store.value == ["v": 1])
            #expect(driver.report.last?.end.reason == "too late")
        }
    }

    @Test("a document whose candidate would violate the schema is refused, and no rollout begins")
    func schema() async throws {
        var fixture = RolloutFixture()
        fixture.store.schema = #"{"properties": {"v": {"maximum": 5}}}"#
        defer { fixture.remove() }
        try await fixture.run { (store, _) async throws in
            _ = try await store.push(["v": 1], "1")
            let error = await #expect(throws: ConfigError.self) { try await store.push(["v": 9], "2") }
            #expect(error?.code == .schemaViolation)
            #expect(store.canaries.rollout == nil && store.value == ["v": 1])
        }
    }

    @Test("a rejected document is rolled back even if the previous one violates a newer schema")
    func newerSchema() async throws {
        let fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, driver) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
            await store.use(try fixture.store.compiled(#"{"properties": {"v": {"minimum": 2}}}"#))
            driver.acknowledge(store.canary.revision, accepted: false)
            await store.waitForEndOfRollout()
            #expect(store.value == ["v": 1] && store.canary.revision == store.revision)
            #expect(store.publication.status.schema.problems.count == 1)
            let error = await #expect(throws: ConfigError.self) {
                try await store.set(JSONPath(["a"]), to: 1, timeToLive: nil)
            }
            #expect(error?.code == .schemaViolation)
        }
    }

    @Test("after a change of the settings, the acceptances so far may suffice")
    func fewerRequired() async throws {
        let fixture = RolloutFixture(RolloutSettings(.names(["app", "ap"])))
        defer { fixture.remove() }
        let store = try await fixture.store.open()
        let driver = fixture.driver(of: store)
        let task = Task { await driver.run() }
        _ = try await store.push(["v": 1], "1")
        _ = try await store.push(["v": 2], "2")
        driver.acknowledge(store.canary.revision)
        #expect(driver.report.progress?.accepted == ["app"])
        task.cancel()
        await task.value
        driver.use(RolloutSettings(.names(["app"])))
        let next = Task { await driver.run() }
        await store.waitForEndOfRollout()
        #expect(store.value == ["v": 2] && driver.report.last?.end.outcome == .published)
        next.cancel()
        await next.value
        await store.stop()
    }

    @Test("without the setting, the document of a rollout in progress is published")
    func settingRemoved() async throws {
        var fixture = RolloutFixture()
        defer { fixture.remove() }
        try await fixture.run { (store, _) async throws in
            _ = try await store.push(["v": 1], "1")
            _ = try await store.push(["v": 2], "2")
        }
        fixture.store.rollout = nil
        let store = try await fixture.store.open()
        await fixture.driver(of: store).run()
        #expect(store.value == ["v": 2])
        await store.stop()
    }
}
