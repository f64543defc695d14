import ConfigTestSupport
import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderUpstream
import NIOPosix
import TestSupport

@testable import LarderConfigStorage
@testable import LarderConfigSources
@testable import LarderConfig

/// Everything at once on one namespace: refreshes, forced refreshes, pushes, overrides that end, signalled changes, the
/// poll, edits of the host's files, another source, and cancellations of all of them, each with delays by chance. The
/// store, the flows and the poller are the agent's; the upstream, the files and the time are not.
final class Scenario: @unchecked Sendable {
    // Unchecked, because only the simulation's thread touches it.

    /// What the source would say now.
    struct Upstream {
        /// Starts so high that no push of an older version gets a negative number, which would not be ordered.
        var version = 1_000
        /// Another one for each change, whatever happens to the version.
        var serial = 1
    }

    let ledger = ScenarioLedger()
    let clock: ManualClock
    var chance: SeededGenerator
    var upstream = Upstream()
    /// Whether nothing fails any more.
    private(set) var isCalm = false
    /// What the administrator's file says.
    var hostContent = 0
    let signals: AsyncStream<Void>
    let signal: AsyncStream<Void>.Continuation
    private(set) var store: ConfigStore?
    private var stepsLeft: Int
    private var jobs = 0
    private(set) var isFinished = false

    private static let clients = 6
    /// More than any scenario needs.
    private static let maximumJobs = 10_000_000

    /// Lives through so many commands and edits.
    static func run(seed: UInt64, steps: Int) async -> Scenario {
        await SimulatedRuntime.run(seed: seed) { runtime in
            let scenario = Scenario(clock: runtime.clock, seed: seed, steps: steps)
            Task { await scenario.live() }
            return scenario
        } while: {
            $0.goesOn()
        }
    }

    private init(clock: ManualClock, seed: UInt64, steps: Int) {
        self.clock = clock
        // Not the generator that orders the jobs, but one of its own.
        chance = SeededGenerator(seed: ~seed)
        stepsLeft = steps
        (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    private func goesOn() -> Bool {
        jobs += 1
        if let store { ledger.observe(store.publication.current.snapshot) }
        return jobs < Self.maximumJobs && ledger.violations.isEmpty
    }

    /// Whether there is something left to do, of which the caller then does one step.
    func takeStep() -> Bool {
        stepsLeft -= 1
        return stepsLeft >= 0
    }

    private func live() async {
        do {
            let store = try await open()
            self.store = store
            let refresher = ConfigRefreshService(
                store: store, source: ScenarioSource(scenario: self), wallClock: wallClock)
            let host = FileLayerRefresher(.host, store: store) { await self.readHost() }
            let poller = SourcePoller(
                source: ScenarioSource(scenario: self), refresher: refresher, store: store,
                schedule: PollSchedule(interval: .seconds(10), seed: "a"), clock: clock, wallClock: wallClock,
                generator: chance)
            let flow = Task { await refresher.run() }
            let asking = [
                Task { await poller.run(after: .started(holding: false)) },
                Task { await poller.follow(after: .started(holding: false)) },
            ]
            await withTaskGroup { group in
                for number in 0..<Self.clients {
                    let client = ScenarioClient(number: number, scenario: self, refresher: refresher, host: host)
                    group.addTask { await client.live() }
                }
            }
            isCalm = true
            for task in asking { task.cancel() }
            let last = ScenarioClient(number: Self.clients, scenario: self, refresher: refresher, host: host)
            await last.lookAround()
            flow.cancel()
            await flow.value
            await host.finish()
            await store.stop()
            isFinished = true
        } catch {
            ledger.violated("\(error)")
        }
    }

    private var wallClock: WallClock { WallClock { [clock] in 1_700_000_000_000 + clock.now.offset.milliseconds } }

    private func open() async throws -> ConfigStore {
        let archive = ConfigArchive(
            namespace: "default", epoch: "00ff00ff00ff00ff", directory: "/state", files: MemoryFileSystem(),
            logger: .silent)
        // A pool that is not started runs bodies on the caller's thread, here the simulation's.
        let blocking = BlockingWork(NIOThreadPool(numberOfThreads: 1))
        return try await ConfigStore.open(
            archive.restore(), storage: NamespaceStorage(archive, blocking: blocking, clock: clock, logger: .silent),
            limits: StoreLimits(durability: .full, documents: DocumentLimits(maximumBytes: 1 << 20)),
            status: NamespaceStatus(source: ("scripted", "scripted:source")),
            clocks: StoreClocks(wallClock: wallClock, clock: clock), logger: .silent)
    }

    private func readHost() async -> Result<ComposedPatch, FileReadError> {
        let before = hostContent
        try? await clock.sleep(for: chance.duration(upTo: 1))
        if !isCalm, chance.oneIn(20) {
            return .failure(FileReadError(.unstable, "/config.d", "it changes all the time"))
        }
        return .success(ComposedPatch(["host": .int(chance.oneIn(2) ? before : hostContent)]))
    }
}

extension SeededGenerator {
    /// True once in so many times.
    mutating func oneIn(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }

    /// Some milliseconds, up to whole seconds.
    mutating func duration(upTo seconds: Int) -> Duration {
        .milliseconds(Int.random(in: 0...(seconds * 1_000), using: &self))
    }
}
