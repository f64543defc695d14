import LarderClient
import Synchronization
import Testing

/// A namespace of a test: a document in memory, without an agent.
private final class MemoryConfig: ConfigCalls {
    private struct State {
        var document: JSONValue
        var revision = 1
        var conflicts = 0
    }

    let namespace = "default"
    private let state: Mutex<State>

    init(_ document: JSONValue, conflicts: Int = 0) { state = Mutex(State(document: document, conflicts: conflicts)) }

    private func change(_ body: (inout State) throws(LarderClientError) -> Void) throws(LarderClientError)
        -> ConfigChange
    {
        try state.withLock { state throws(LarderClientError) in
            try body(&state)
            state.revision += 1
            return ConfigChange(revision: state.revision, epoch: "test")
        }
    }

    func snapshot(
        at path: String, maximumAge: Duration?, staleIfError: Duration?
    ) async throws(LarderClientError) -> LarderSnapshot {
        state.withLock { state in
            LarderSnapshot(
                value: (try? JSONPath(parsing: path)).flatMap { state.document.value(at: $0) },
                revision: state.revision,
                epoch: "test", state: .fresh)
        }
    }

    func snapshots(at path: String, mode: LarderSnapshots.Mode) -> LarderSnapshots {
        LarderSnapshots(
            AsyncStream { continuation in
                Task {
                    if let snapshot = try? await snapshot(at: path, maximumAge: nil, staleIfError: nil) {
                        continuation.yield(.snapshot(snapshot))
                    }
                    continuation.finish()
                }
            })
    }

    func set(
        _ value: JSONValue, at path: String, ttl: Duration?
    ) async throws(LarderClientError) -> ConfigChange {
        var list = ConfigChangeList()
        list.set(value, at: path, ttl: ttl)
        return try await apply(list, ifRevision: .any, reason: nil, dryRun: false)
            ?? ConfigChange(revision: 1, epoch: "test", hasEffect: false)
    }

    /// Replaces members of the document. Each path has one segment.
    func apply(
        _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
    ) async throws(LarderClientError) -> ConfigChange? {
        try change { state throws(LarderClientError) in
            if state.conflicts > 0 {
                state.conflicts -= 1
                throw LarderClientError(remote: RemoteError(.conflict, "another client was faster"))
            }
            for change in list.changes {
                let name = change.path.split(separator: "/").joined()
                var members = state.document.members.filter { $0.name != name }.map { ($0.name, $0.value) }
                switch change.operation {
                case .set(let value, _): members.append((name, value))
                case .unset: break
                case .require: continue
                }
                state.document = .object(members)
            }
        }
    }

    func unset(at path: String) async throws(LarderClientError) -> ConfigChange {
        try change { state throws(LarderClientError) in state.document = .emptyObject }
    }

    func unsetAll() async throws(LarderClientError) -> ConfigChange { try await unset(at: "") }

    func refresh(force: Bool, timeout: Duration?) async throws(LarderClientError) -> ConfigChange {
        throw LarderClientError(.unreachable, "there is no agent")
    }
}

private struct FixedImages: ImageCalls {
    let result: Result<LeasedImage, LarderClientError>

    func get(
        _ request: LarderImageRequest, onProgress: (@Sendable (DownloadProgress) -> Void)?
    ) async throws(LarderClientError) -> LeasedImage {
        onProgress?(DownloadProgress(receivedBytes: 1, totalBytes: 2))
        return try result.get()
    }
}

@Suite("View models without an agent", .timeLimit(.minutes(15)))
@MainActor
struct ReplacedAgentTests {
    @Test("a configuration that a test replaces gives values, updates and view models")
    func configuration() async throws {
        let config = MemoryConfig(["limit": 10], conflicts: 1)
        #expect(try await config.value(at: "limit", as: Int.self) == 10)
        #expect(try await config.value(at: "nothing", default: 5) == 5)
        let missing = await #expect(throws: LarderClientError.self) {
            try await config.value(at: "nothing", as: Int.self)
        }
        #expect(missing?.remoteError?.code == .notFound)
        #expect(try await config.update(at: "limit", as: Int.self) { $0 += 1 } == 11)
        try await config.set(encoding: "dark", at: "theme")
        #expect(try await config.value(at: "theme", as: String.self) == "dark")

        let model = ConfigViewModel(config, at: "limit", default: 1)
        #expect(await model.set(12))
        #expect(model.value == 12 && model.namespace == "default")
        #expect(await model.update { $0 *= 2 })
        #expect(model.value == 24)
        #expect(await !model.refresh())
        #expect(model.lastError?.code == .unreachable && model.value == 24)
        #expect(await model.unset())
        #expect(model.value == 1)
    }

    @Test("images that a test replaces give view models")
    func images() async throws {
        let digest = try #require(LarderImage.Digest(String(repeating: "0", count: 64)))
        let info = LarderImage(digest: digest, mediaType: "image/png", width: 1, height: 2, byteCount: 3)
        let model = ImageViewModel(FixedImages(result: .success(LeasedImage(path: "/logo.png", info: info))))
        await model.load("https://img.example.org/logo.png")
        #expect(model.image?.path == "/logo.png" && model.image?.info == info)

        let failed = ImageViewModel(FixedImages(result: .failure(LarderClientError(.timeout, "too slow"))))
        await failed.load("https://img.example.org/logo.png")
        guard case .failed(let error, last: nil) = failed.phase else {
            return #expect(Bool(false), "\(failed.phase)")
        }
        #expect(error.code == .timeout)
    }
}
