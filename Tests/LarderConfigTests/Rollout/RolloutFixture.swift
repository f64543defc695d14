import ConfigTestSupport
import LarderEncoding
import LarderJSON
import LarderPlatform
import Logging
import TestSupport

@testable import LarderConfigModel
@testable import LarderConfig

/// Opens stores that roll out new documents, with a running driver. The time of day begins at 1,000,000 ms since 1970.
struct RolloutFixture {
    let clock: ManualClock
    var store: StoreFixture

    init(_ settings: RolloutSettings = RolloutSettings(.names(["app"]))) {
        let clock = ManualClock()
        self.clock = clock
        store = .local(clock: clock)
        store.rollout = settings
        store.wallClock = WallClock { 1_000_000 + clock.now.offset.milliseconds }
    }

    /// Calls `body` with a store and its driver, and then stops both.
    func run(_ body: (ConfigStore, RolloutDriver) async throws -> Void) async throws {
        let opened = try await store.open()
        let driver = driver(of: opened)
        let task = Task { await driver.run() }
        do {
            try await body(opened, driver)
        } catch {
            task.cancel()
            await task.value
            throw error
        }
        task.cancel()
        await task.value
        await opened.stop()
    }

    func driver(of opened: ConfigStore) -> RolloutDriver {
        RolloutDriver(
            opened, store.rollout, clocks: StoreClocks(wallClock: store.wallClock, clock: clock), logger: .silent)
    }

    func remove() { store.remove() }
}

extension ConfigStore {
    /// Pushes a document.
    func push(_ value: JSONValue, _ version: String, force: Bool = false) async throws(ConfigError) -> CommitOutcome {
        try await replaceRemote(
            SourceDocument(value: value, version: UpstreamVersion(version)), origin: SourceOrigin.push, force: force,
            isPush: true)
    }

    /// The snapshot that canaries get.
    nonisolated var canary: ConfigSnapshot { canaries.publication().current.snapshot }

    /// Waits until no rollout is in progress.
    nonisolated func waitForEndOfRollout() async {
        while canaries.rollout != nil { await Task.yield() }
    }
}

extension RolloutDriver {
    /// Records an acknowledgement of a process.
    func acknowledge(
        _ revision: Int, by command: String = "app", client: Int = 1, accepted: Bool = true, reason: String? = nil
    ) {
        note(
            RolloutAcknowledgement(
                revision: revision, isAccepted: accepted, reason: reason, peer: Peer(pid: 7, uid: 0, command: command),
                client: client))
    }
}
