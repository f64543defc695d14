import FoundationEssentials
import LarderClient
import LarderTesting
import Synchronization
import Testing

private struct FixedImages: ImageCalls {
    let result: Result<LeasedImage, LarderClientError>

    func get(
        _ request: LarderImageRequest, onProgress: (@Sendable (DownloadProgress) -> Void)?
    ) async throws(LarderClientError) -> LeasedImage {
        onProgress?(DownloadProgress(receivedBytes: 1, totalBytes: 2))
        return try result.get()
    }
}

/// The calls of a program that a test replaces.
private protocol AdministrationCalls {
    func agent() -> LarderAgentInfo
    func status() -> NamespaceStatus
    func explanation() -> ConfigExplanation
    func history() -> [ConfigGeneration]
    func dryRun() -> ConfigChange
    func conflict() -> LarderClientError
    func images() -> CachedImages
    func decision() -> ImageDecision
    func removed() -> RemovedImages
    func prefetch() -> [ImagePrefetchSteps.Element]
    func records() -> RepositoryContents<String>
}

/// Creates each value that the library returns, as a test outside this package does: with public initializers.
private struct FixedAdministration: AdministrationCalls {
    private let time = LarderTime(since1970: .seconds(1_700_000_000))
    private let info: LarderImage

    init(digest: LarderImage.Digest) {
        info = LarderImage(digest: digest, mediaType: "image/png", width: 1, height: 2, byteCount: 3)
    }

    func agent() -> LarderAgentInfo {
        LarderAgentInfo(
            version: "1.0.0", processID: 1, startedAt: time, uptime: .seconds(60), epoch: "e", socket: "/a.sock",
            namespaces: ["default"], rights: [.read, .write], namespaceRights: ["shop": [.read]])
    }

    func status() -> NamespaceStatus {
        NamespaceStatus(
            name: "default", state: .stale, since: time, revision: 7, epoch: "e", publishedAt: time, age: .seconds(5),
            lastError: .init(message: "no network", time: time), rejection: .init(message: "not JSON", time: time),
            source: .init(kind: "http", location: "https://config.example.org/a.json", consecutiveFailures: 2),
            acknowledgements: [7: 1], rejectingClients: 1)
    }

    func explanation() -> ConfigExplanation {
        ConfigExplanation(
            revision: 7, epoch: "e", value: 25, winner: "override",
            layers: [
                .init(name: "defaults", value: 10, file: "/etc/defaults.json", line: 3),
                .init(name: "override", value: 25, command: "larder", reason: "test", expiresAt: time),
            ])
    }

    func history() -> [ConfigGeneration] {
        [
            ConfigGeneration(
                revision: 7, epoch: "e", publishedAt: time, isCurrent: true,
                causes: [.init(kind: "set", path: "search.limit", command: "larder")])
        ]
    }

    func dryRun() -> ConfigChange {
        ConfigChange(
            revision: 7, epoch: "e", hasEffect: true,
            differences: [ConfigDifference(path: JSONPath(["search", "limit"]), old: 10, new: 25)],
            violations: [violation])
    }

    private var violation: ConfigViolation {
        ConfigViolation(path: JSONPath(["search", "limit"]), message: "found a string", keyword: "type", line: 3)
    }

    func conflict() -> LarderClientError {
        LarderClientError(
            remote: RemoteError(
                .conflict, "the value differs", right: .write, namespace: "shop",
                conflict: .init(revision: 7, epoch: "e", path: JSONPath(["a"]), value: 1), violations: [violation]))
    }

    func images() -> CachedImages {
        CachedImages(
            images: [CachedImage(url: "https://img.example.org/a.png", info: info, storedAt: time, lastUsedAt: time)],
            next: "a")
    }

    func decision() -> ImageDecision {
        ImageDecision(
            action: .revalidate, cached: images().images.first, validatesLater: true,
            download: ImageDownload(id: 1, receivedBytes: 10), rules: ["stale"])
    }

    func removed() -> RemovedImages { RemovedImages(count: 1, byteCount: 3) }

    func prefetch() -> [ImagePrefetchSteps.Element] {
        [
            .progress(PrefetchProgress(done: 1, failed: 0, byteCount: 3, total: 2)),
            .finished(
                PrefetchSummary(
                    total: 2, downloaded: 1, cached: 0, failed: 1, byteCount: 3,
                    failures: [.init(url: "https://img.example.org/b.png", error: RemoteError(.offline, "offline"))])),
        ]
    }

    func records() -> RepositoryContents<String> {
        RepositoryContents(
            models: ["a"], failures: [.init(name: "b", error: LarderClientError(.decodingFailed, "not a string"))])
    }
}

@Suite("View models without an agent", .timeLimit(.minutes(15)))
@MainActor
struct ReplacedAgentTests {
    @Test("a configuration that a test replaces gives values, updates and view models")
    func configuration() async throws {
        let config = MemoryConfig(["limit": 10])
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
        #expect(await model.refresh())
        #expect(await model.unset())
        #expect(model.value == 10, "the value below the override takes effect again")
    }

    @Test("the configuration of the article and the agent have the same values and outcomes after the same changes")
    func comparison() async throws {
        let document: JSONValue = ["m": ["limit": 10, "hosts": ["a"]], "number": 1, "base": ["x": 1]]
        let configs: [any ConfigCalls] = [MemoryConfig(document), try await TestAgent(document).client().config]
        let changes: [@Sendable (inout ConfigChangeList) -> Void] = [
            { $0.set(1, at: "m.hosts.0") },
            { list in
                list.set(1, at: "m.hosts.0")
                list.require(.equals(5), at: "number")  // compared before the first change
            },
            { list in
                list.require(.equals(5), at: "number")
                list.set(1, at: "a..b")  // refused before anything is compared
            },
            { $0.set(["c": ["d": ["x": [:]], "e": 1]], at: "a") },
            { $0.set("x", at: "a.c.d") },
            { $0.set(["t": "x"], at: "a.c.d") },
            { $0.set(["e": 2, "f": [:]], at: "a.c") },
            { $0.unset(at: "a") },
            { $0.set(1, at: "") },
            { $0.set(1, at: "a..b") },
            { _ in },
            { $0.set(["limit": 25, "hosts": .null], at: "m") },
            { $0.unset(at: "m.limit") },  // the override above stays
            { $0.set(30, at: "m.limit") },
            { $0.unset(at: "m.limit") },
            { $0.set(["y": 2], at: "m.inner") },
            { $0.set(["owner": "ada"], at: "m") },  // replaces the overrides below
            { $0.unset(at: "m") },
            { $0.unset(at: "m") },
            { $0.set(.null, at: "m.limit") },
            { $0.set(.null, at: "nowhere.x") },
            { $0.set(["x": .null], at: "somewhere") },
            { $0.set(2, at: "number.x") },
            { $0.unset(at: "number") },
            { $0.set(.null, at: "base") },
            { $0.set(2, at: "base.y") },
            { $0.unset(at: "base.y") },
            { $0.set(5, at: "m.limit", ifValue: .equals(4)) },
            { $0.set(5, at: "m.limit", ifValue: .absent) },
            { list in
                list.require(.equals(5), at: "m.limit")
                list.unset(at: "m")
                list.set(7, at: "m.deep.limit", ifValue: .absent)
            },
            { $0.require(.absent, at: "m") },
            { $0.set(["deep": ["limit": 7]], at: "m") },  // changes the overrides, and not the value
            { $0.unset(at: "m.deep.limit") },
            { $0.unset(at: "base") },
        ]
        for (index, change) in changes.enumerated() {
            var (outcomes, differences) = ([String](), [[ConfigDifference]]())
            for config in configs {
                var list = ConfigChangeList()
                change(&list)
                do throws(LarderClientError) {
                    let preview = try await config.apply(list, ifRevision: .any, reason: nil, dryRun: true)
                    let result = try await config.apply(list, ifRevision: .any, reason: nil, dryRun: false)
                    #expect(preview?.hasEffect == result?.hasEffect && (preview?.differences == nil) == (result == nil))
                    outcomes.append("\(result.map { "\($0.hasEffect)" } ?? "nil")")
                    let previewed = preview?.differences ?? []
                    differences.append(previewed.sorted { "\($0.path)" < "\($1.path)" })
                } catch {
                    outcomes.append(error.remoteError?.code.description ?? "\(error.code)")
                }
            }
            #expect(outcomes[0] == outcomes[1], "change \(index)")
            #expect(differences.first == differences.last, "change \(index)")
            let values = [try await configs[0].value(as: JSONValue.self), try await configs[1].value()]
            #expect(values[0] == values[1], "change \(index)")
        }
        for config in configs {
            let old = try await config.snapshot(at: "", maximumAge: nil, staleIfError: nil)
            try await config.set(8, at: "m.limit", ttl: nil)
            var list = ConfigChangeList()
            list.set(9, at: "m.limit")
            do throws(LarderClientError) {
                _ = try await config.apply(list, ifRevision: .equals(old), reason: nil, dryRun: false)
                Issue.record("another revision is accepted")
            } catch {
                #expect(error.remoteError?.code == .conflict)
            }
        }
    }

    @Test("the example of the article is the one that these tests use")
    func example() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..")
        func text(_ path: String) throws -> String {
            String(decoding: try Data(contentsOf: root.appending(path: path)), as: UTF8.self)
        }
        let source = try text("Tests/LarderClientTests/ViewModels/MemoryConfig.swift")
        let start = try #require(source.firstRange(of: "/// A namespace in memory: "))
        let end = try #require(source[start.upperBound...].firstRange(of: "\n}\n"))
        let article = try text("Sources/LarderClient/LarderClient.docc/Testing.md")
        #expect(article.contains(source[start.lowerBound..<end.upperBound]))
    }

    /// A configuration whose calls note their paths, whose streams end at once, and whose clock stands still.
    private final class NotedConfig: ConfigCalls {
        let namespace = "default"
        let clock: any Clock<Duration> = TestClock()
        let paths = Mutex<[String]>([])
        let conflicts: Mutex<Int>

        init(conflicts: Int = 0) { self.conflicts = Mutex(conflicts) }

        func snapshot(
            at path: String, maximumAge: Duration?, staleIfError: Duration?
        ) async throws(LarderClientError) -> LarderSnapshot {
            paths.withLock { $0.append(path) }
            return LarderSnapshot(value: ["limit": 7], revision: 1, epoch: "test", state: .fresh)
        }

        func snapshots(at path: String, mode: LarderSnapshots.Mode) -> LarderSnapshots {
            LarderSnapshots(AsyncStream { $0.finish() })
        }

        func apply(
            _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
        ) async throws(LarderClientError) -> ConfigChange? {
            let isConflict = conflicts.withLock { conflicts in
                conflicts -= 1
                return conflicts >= 0
            }
            if isConflict { throw LarderClientError(remote: RemoteError(.conflict, "another client was faster")) }
            paths.withLock { $0 += list.changes.map(\.path) }
            return ConfigChange(revision: 2, epoch: "test")
        }

        func set(_ value: JSONValue, at path: String, ttl: Duration?) async throws(LarderClientError) -> ConfigChange {
            paths.withLock { $0.append(path) }
            return ConfigChange(revision: 2, epoch: "test")
        }

        func unset(at path: String) async throws(LarderClientError) -> ConfigChange {
            try await set(.null, at: path, ttl: nil)
        }

        func unsetAll() async throws(LarderClientError) -> ConfigChange { try await set(.null, at: "", ttl: nil) }

        func refresh(force: Bool, timeout: Duration?) async throws(LarderClientError) -> ConfigChange {
            try await set(.null, at: "", ttl: nil)
        }
    }

    @Test(
        "the calls get the paths as the code wrote them, and those of members with dots",
        arguments: [
            ("search", ["search", "search.limit", "search"]), ("/search", ["/search", "search.limit", "/search"]),
        ])
    func paths(path: String, expected: [String]) async throws {
        let config = NotedConfig(conflicts: 1)
        try await config.update(at: path, as: [String: Int].self) { $0["limit"] = 8 }
        #expect(config.paths.withLock { $0 } == [path] + expected, "read twice, because the first attempt fails")
    }

    @Test("calls of a view model succeed although the stream of the configuration ends at once")
    func endedStream() async {
        let config = NotedConfig()
        let model = ConfigViewModel(config, at: "search", default: ["limit": 1])
        #expect(await model.update { $0["limit"] = 8 })
        #expect(model.lastError == nil && model.value == ["limit": 7])
        #expect(await model.unset())
        #expect(await model.refresh())
        #expect(await model.set(["limit": 9]))
        #expect(model.lastError == nil)
    }

    private struct Note: Codable, Identifiable, Equatable, Sendable {
        var id: String
        var text: String
    }

    @Test("a configuration that a test replaces gives repositories: reads, saves, conflicts, deletions and imports")
    func repository() async throws {
        let config = MemoryConfig(["notes": ["1": ["id": "1", "text": "one"], "2": ["id": "2"]]])
        let notes = LarderRepository(config, at: "notes", of: Note.self)
        let contents = try await notes.contents()
        #expect(contents.models == [Note(id: "1", text: "one")] && contents.failures.map(\.name) == ["2"])
        try await notes.save(Note(id: "1", text: "two"))
        try await notes.save(Note(id: "3", text: "three"))
        #expect(try await notes.load("3")?.text == "three")
        #expect(try await config.value(at: "notes.1.text", as: String.self) == "two")

        _ = try await config.set("theirs", at: "notes.1.text", ttl: nil)
        let conflict = await #expect(throws: LarderClientError.self) {
            try await notes.save(Note(id: "1", text: "mine"))
        }
        #expect(conflict?.remoteError?.code == .conflict)
        #expect(try await notes.load("1", policy: .cacheOnly)?.text == "theirs", "the conflict has the newer value")
        try await notes.save(Note(id: "1", text: "mine"))
        try await notes.delete("3")
        #expect(try await notes.load("3") == nil)

        try await notes.importAll([Note(id: "1", text: "mine"), Note(id: "4", text: "four")])
        var changes = notes.contentChanges.makeAsyncIterator()
        #expect(try await changes.next()?.models.sorted { $0.id < $1.id }.map(\.text) == ["mine", "four"])
        try await notes.replaceAll(with: [Note(id: "5", text: "five")])
        #expect(try await notes.all() == [Note(id: "5", text: "five")])
    }

    @Test("a test can create each value that the library returns")
    func values() throws {
        let digest = try #require(LarderImage.Digest(String(repeating: "0", count: 64)))
        let calls: any AdministrationCalls = FixedAdministration(digest: digest)
        #expect(calls.agent().name == "larderd" && calls.agent().problems.isEmpty)
        #expect(calls.status().source?.consecutiveFailures == 2 && calls.status().rejection?.message == "not JSON")
        #expect(calls.explanation().layers.last?.value == calls.explanation().value)
        #expect(calls.history().first?.causes.first?.path == "search.limit")
        #expect(calls.dryRun().differences?.first?.new == 25)
        #expect(calls.dryRun().violations?.first?.schemaLocation == "#")
        let error = try #require(calls.conflict().remoteError)
        #expect(error.conflict == .init(revision: 7, epoch: "e", path: JSONPath(["a"]), value: 1))
        #expect(error.right == .write && error.namespace == "shop" && error.violations == calls.dryRun().violations)
        #expect(calls.images().next == "a" && calls.decision().cached == calls.images().images.first)
        #expect(calls.decision().download?.requests == 1 && calls.removed().count == 1)
        guard case .finished(let summary) = calls.prefetch().last else { return #expect(Bool(false)) }
        #expect(summary.downloaded == 1 && summary.failures.first?.error.code == .offline)
        #expect(calls.records().models == ["a"] && calls.records().failures.first?.name == "b")
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
