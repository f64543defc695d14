import ConfigTestSupport
import Foundation
import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderSchema
import NIOPosix

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

/// Opens stores in a temporary directory, with the settings and dependencies that a test chooses.
struct StoreFixture {
    /// The time of day starts in the middle of an hour. Otherwise a new hour could begin during a test, and the history
    /// would keep one more snapshot.
    private static let wallClock = {
        let start = ContinuousClock.now
        return WallClock { 1_800_001_800_000 + (ContinuousClock.now - start).milliseconds }
    }()

    let directory: String
    var epoch = "00ff00ff00ff00ff"
    var files: any FileSystem = LocalFileSystem()
    var clock: any Clock<Duration> = ContinuousClock()
    var wallClock = Self.wallClock
    var durability = Durability.full
    var hasRemote = true
    /// The identity of the source; nil for its location.
    var identity: String?
    var maximumDeletion: Int?
    var staleIfError: Duration?
    var rules = LayerRules()
    var history = HistoryLimits()
    /// The schema as JSON; nil for none.
    var schema: String?
    var enforcement = SchemaSettings.Enforcement.reject
    /// The values that messages about violations of the schema must not show.
    var secrets = SecretPatterns.none
    /// The content of the host layer when a store is opened; nil for the content recorded on disk.
    var host: JSONValue?

    init() {
        directory = NSTemporaryDirectory() + "/larder-store-" + UUID().uuidString
    }

    func open() async throws -> ConfigStore {
        let archive = ConfigArchive(
            namespace: "default", epoch: epoch, directory: directory, files: files,
            logger: .silent)
        archive.generations.configure(history)
        var restored = try archive.restore()
        let lastGood = restored.layers
        if let host { restored.layers[.host] = FileDocument(document: host, updatedAt: wallClock.now) }
        return try await ConfigStore.open(
            restored,
            storage: NamespaceStorage(
                archive, blocking: BlockingThreadPool(SharedThreads.pool), clock: clock, logger: .silent),
            rules: rules,
            limits: StoreLimits(
                durability: durability,
                documents: DocumentLimits(maximumBytes: 1 << 20, maximumDeletion: maximumDeletion)),
            status: NamespaceStatus(
                source: hasRemote
                    ? .init("scripted", at: "scripted:source", identity: identity, staleIfError: staleIfError) : nil),
            schema: schema.map { try compiled($0) }, lastGood: lastGood,
            clocks: StoreClocks(wallClock: wallClock, clock: clock), logger: .silent)
    }

    /// Compiles a schema with the settings of this fixture.
    func compiled(_ schema: String) throws -> NamespaceSchema {
        let document = try JSONValue(parsing: schema)
        return NamespaceSchema(
            [ExactText("/schema.json"): document], try JSONSchema(document),
            settings: SchemaSettings(path: "/schema.json", enforcement: enforcement), secrets: secrets)
    }

    /// Returns a fixture without a remote source.
    /// - Parameter clock: the clock of all timers. While a ``ManualClock`` stands still, no generation is written in
    ///   the background.
    static func local(
        _ durability: Durability = .full, files: any FileSystem = LocalFileSystem(),
        clock: any Clock<Duration> = ContinuousClock()
    ) -> StoreFixture {
        var fixture = StoreFixture()
        fixture.hasRemote = false
        fixture.durability = durability
        fixture.files = files
        fixture.clock = clock
        return fixture
    }

    /// Calls `body` with a store and then stops the store.
    func withStore(_ body: (ConfigStore) async throws -> Void) async throws {
        let store = try await open()
        try await body(store)
        await store.stop()
    }

    func remove() { try? FileManager.default.removeItem(atPath: directory) }

    /// Calls `body` with a store and its running refresh service, and then stops both.
    func withFlow(
        _ source: ScriptedSource = ScriptedSource(),
        _ body: (ConfigStore, ConfigRefreshService, ScriptedSource) async throws -> Void
    ) async throws {
        defer { remove() }
        let store = try await open()
        let refresher = ConfigRefreshService(store: store, source: source, clock: clock)
        let flow = Task { await refresher.run() }
        do {
            try await body(store, refresher, source)
        } catch {
            flow.cancel()
            await flow.value
            throw error
        }
        flow.cancel()
        await flow.value
        await store.stop()
    }
}

extension ConfigStore {
    nonisolated var value: JSONValue { publication.current.snapshot.value }
    nonisolated var revision: Int { publication.current.snapshot.revision }

    var expiry: OverrideExpiry { committer.expiry }
    var layers: Layers { state.layers }
    var newest: GenerationHistory { committer.history }
    var resolvedDigest: SnapshotDigest { state.resolvedDigest }

    func pastSnapshots() async -> [PastSnapshot] { await history().snapshots() }

    func value(ofRevision revision: Int) async throws(ConfigError) -> JSONValue {
        try await history().value(ofRevision: revision)
    }

    func pin(_ isPinned: Bool, revision: Int) async throws(ConfigError) -> Bool {
        try await history().pin(isPinned, revision: revision)
    }

    func set(
        _ path: JSONPath, to value: JSONValue, timeToLive: Duration?, by peer: Peer? = nil
    ) async throws(ConfigError) -> CommitOutcome {
        try await commit(.set(path: path.segments, value: value, timeToLive: timeToLive, by: peer))
    }

    func unset(_ path: JSONPath, by peer: Peer? = nil) async throws(ConfigError) -> CommitOutcome {
        try await commit(.unset(path: path.segments, by: peer))
    }

    func rollBack(
        toRevision revision: Int, hold rule: HoldRule? = nil, by peer: Peer?
    ) async throws(ConfigError) -> CommitOutcome {
        try await commit(rollback(toRevision: revision, hold: rule, by: peer))
    }

    /// Submits a `set` of a top-level member, without waiting for the commit.
    nonisolated func submit(
        _ name: String, _ value: JSONValue, on executor: (any TaskExecutor)? = nil,
        then completion: @escaping @Sendable (Result<CommitOutcome, ConfigError>) -> Void
    ) -> ChangeHandle {
        submit(.set(path: [name], value: value, timeToLive: nil, by: nil), on: executor, then: completion)
    }

    func replaceFiles(_ layer: FileLayer, with content: ComposedPatch) async throws(ConfigError) -> CommitOutcome {
        try await commit(.files(layer, content))
    }

    /// Replaces a layer that is read from files by a single document.
    func replaceFiles(_ layer: FileLayer, with document: JSONValue) async throws(ConfigError) -> CommitOutcome {
        try await replaceFiles(layer, with: ComposedPatch(document))
    }

    func release(by peer: Peer?) async throws(ConfigError) -> CommitOutcome {
        try await commit(.release(by: peer))
    }

    /// Writes the current generation and the pending ones.
    func writeNow() async throws { await storage.writer.catchUp(with: state.generation) }
}
