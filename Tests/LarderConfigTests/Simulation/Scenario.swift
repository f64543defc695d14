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

/// A simulation of concurrent clients of one namespace. They refresh, push, set overrides with and without expiry, edit
/// the host file and replace the source, with random delays and cancellations, while the source delivers documents
/// and is polled. The store, the refreshers and the poller are the agent's code. The upstream, the files and the clock are
/// simulated.
final class Scenario: @unchecked Sendable {
    // Unchecked, because only the simulation's thread accesses it.

    /// The current state of the source.
    struct Upstream {
        /// The version of the document. Starts at 1,000, so that pushed documents with lower versions still have
        /// positive versions. Negative versions have no order.
        var version = 1_000
        /// Identifies the state. Unlike the version, it increases with each change.
        var serial = 1
    }

    let ledger = ScenarioLedger()
    let clock: ManualClock
    var generator: SeededGenerator
    var upstream = Upstream()
    /// Whether the random failures and cancellations have ended.
    private(set) var isCalm = false
    /// The content of the host file.
    var hostContent = 0
    let signals: AsyncStream<Void>
    let signal: AsyncStream<Void>.Continuation
    private(set) var store: ConfigStore?
    private var stepsLeft: Int
    private var jobs = 0
    private(set) var isFinished = false

    private static let clients = 6
    /// More jobs than any scenario needs.
    private static let maximumJobs = 10_000_000

    /// Runs a scenario with `steps` commands and edits.
    static func run(seed: UInt64, steps: Int) async -> Scenario {
        await SimulatedRuntime.run(seed: seed) { runtime in
            let scenario = Scenario(clock: runtime.clock, seed: seed, steps: steps)
            Task { await scenario.run() }
            return scenario
        } while: {
            $0.shouldContinue()
        }
    }

    private init(clock: ManualClock, seed: UInt64, steps: Int) {
        self.clock = clock
        // This generator has another seed than the generator that orders the jobs.
        generator = SeededGenerator(seed: ~seed)
        stepsLeft = steps
        (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    private func shouldContinue() -> Bool {
        jobs += 1
        if let store { ledger.observe(store.publication.current.snapshot) }
        return jobs < Self.maximumJobs && ledger.violations.isEmpty
    }

    /// Takes one of the remaining steps for the caller.
    /// - Returns: false if none remains
    func takeStep() -> Bool {
        stepsLeft -= 1
        return stepsLeft >= 0
    }

    private func run() async {
        do {
            let store = try await open()
            self.store = store
            let refresher = ConfigRefreshService(
                store: store, source: ScenarioSource(scenario: self), clock: clock)
            let host = FileLayerRefresher(.host, store: store) { _ in await self.readHost() }
            let poller = SourcePoller(
                source: ScenarioSource(scenario: self), refresher: refresher, store: store,
                schedule: PollSchedule(interval: .seconds(10), seed: "a"), clock: clock, wallClock: wallClock,
                generator: generator)
            let flow = Task { await refresher.run() }
            let polling = Task { await poller.run(after: .started(holding: false)) }
            await withTaskGroup { group in
                for number in 0..<Self.clients {
                    let client = ScenarioClient(number: number, scenario: self, refresher: refresher, host: host)
                    group.addTask { await client.run() }
                }
            }
            isCalm = true
            polling.cancel()
            let last = ScenarioClient(number: Self.clients, scenario: self, refresher: refresher, host: host)
            await last.checkFinalState()
            flow.cancel()
            await flow.value
            await host.finish()
            await store.stop()
            isFinished = true
        } catch {
            ledger.addViolation("\(error)")
        }
    }

    private var wallClock: WallClock { WallClock { [clock] in 1_700_000_000_000 + clock.now.offset.milliseconds } }

    private func open() async throws -> ConfigStore {
        let archive = ConfigArchive(
            namespace: "default", epoch: "00ff00ff00ff00ff", directory: "/state", files: MemoryFileSystem(),
            logger: .silent)
        // A thread pool that is not started runs each body on the thread of the caller, which is the thread of the
        // simulation.
        let blocking = BlockingThreadPool(NIOThreadPool(numberOfThreads: 1))
        return try await ConfigStore.open(
            archive.restore(), storage: NamespaceStorage(archive, blocking: blocking, clock: clock, logger: .silent),
            limits: StoreLimits(durability: .full, documents: DocumentLimits(maximumBytes: 1 << 20)),
            status: NamespaceStatus(source: .init("scripted", at: "scripted:source")),
            clocks: StoreClocks(wallClock: wallClock, clock: clock), logger: .silent)
    }

    private func readHost() async -> Result<ComposedPatch, FileReadError> {
        let before = hostContent
        try? await clock.sleep(for: generator.duration(upTo: 1))
        if !isCalm, generator.oneIn(20) {
            return .failure(FileReadError(.unstable, "/config.d", "it keeps changing"))
        }
        return .success(ComposedPatch(["host": .int(generator.oneIn(2) ? before : hostContent)]))
    }
}

extension SeededGenerator {
    /// Returns true with a probability of 1 in `count`.
    mutating func oneIn(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }

    /// Returns a random number of milliseconds, up to `seconds`.
    mutating func duration(upTo seconds: Int) -> Duration {
        .milliseconds(Int.random(in: 0...(seconds * 1_000), using: &self))
    }
}
