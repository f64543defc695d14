import LarderClient
import LarderTesting
import SystemPackage
import Testing

@Suite("Ranges of arguments", .timeLimit(.minutes(15)))
struct ArgumentRangeTests {
    private struct Item: Codable, Identifiable {
        var id: String
    }

    private struct Sample: Encodable, Sendable {
        var ratio: JSONValue = 1
        var weights: [[String: Double]] = []
    }

    private typealias Call = (name: String, body: () async throws -> Void)

    /// Expects that each call throws `invalidArgument` with a reason that names the parameter or path.
    private func expectRefusals(of calls: [Call]) async {
        for (name, body) in calls {
            let failure: LarderClientError?
            do {
                try await body()
                failure = nil
            } catch {
                failure = error as? LarderClientError
            }
            #expect(failure?.code == .invalidArgument, "\(name)")
            #expect(failure?.reason.contains(name) == true, "\(name): \(failure?.reason ?? "no error")")
        }
    }

    /// A client that cannot connect: a call that sends anything fails with `unreachable`.
    private let offline = LarderClient(socket: "/nonexistent/larder.sock")
    private static let absurd = Duration.seconds(1 << 40)

    @Test("a time that is negative or absurd is refused before anything is sent", arguments: [.seconds(-1), absurd])
    func times(time: Duration) async {
        let (config, images) = (offline.config, offline.images)
        let (url, png) = ("https://a/1.png", TestImageOrigin.png)
        await expectRefusals(of: [
            ("ttl", { try await config.set(1, at: "a", ttl: time) }),
            ("ttl", { try await config.set(encoding: 1, at: "a", ttl: time) }),
            ("ttl", { try await config.replaceAll(with: [:], ttl: time) }),
            ("ttl", { try await config.apply { $0.set(1, at: "a", ttl: time) } }),
            ("maximumAge", { _ = try await config.snapshot(maximumAge: time) }),
            ("staleIfError", { _ = try await config.snapshot(maximumAge: .zero, staleIfError: time) }),
            ("timeout", { try await config.wait(for: .exists(true), timeout: time) }),
            ("deadline", { _ = try await images.get(LarderImageRequest(url, deadline: time)) }),
            ("maximumAge", { _ = try await images.get(LarderImageRequest(url, maximumAge: time)) }),
            ("maximumAge", { _ = try await images.peek(LarderImageRequest(url, maximumAge: time)) }),
            ("lifetime", { try await images.put(png, at: url, lifetime: time) }),
            ("lifetime", { try await images.put(file: FileDescriptor(rawValue: -1), at: url, lifetime: time) }),
            (
                "maximumAge",
                { _ = try await LarderRepository(config, at: "a", of: Item.self).all(policy: .maximumAge(time)) }
            ),
        ])
        let model = await ConfigViewModel(config, at: "a", as: Int.self)
        #expect(await model.set(1, ttl: time) == false)
        #expect(await model.lastError?.code == .invalidArgument)
        let image = await ImageViewModel(images)
        await image.load(LarderImageRequest(url, deadline: time))
        guard case .failed(let error, nil) = await image.phase else {
            return #expect(Bool(false), "the load did not fail")
        }
        #expect(error.code == .invalidArgument)
    }

    @Test("a number outside its range is refused before anything is sent")
    func numbers() async {
        let (config, images) = (offline.config, offline.images)
        var configuration = LarderClient.Configuration()
        configuration.timeout = .zero
        let hasty = LarderClient(socket: offline.socket, configuration: configuration)
        let items = LarderRepository(config, at: "a", of: Item.self)
        await expectRefusals(of: [
            ("timeout", { _ = try await offline.call("agent.ping", timeout: .zero) }),
            ("timeout", { try await config.refresh(timeout: .seconds(-1)) }),
            ("timeout", { try await hasty.agent.ping() }),
            ("timeout", { _ = try await hasty.config.mappedSnapshot() }),
            ("deadline", { _ = try await images.get(LarderImageRequest("u", deadline: .zero)) }),
            ("deadline", { _ = try await images.get(LarderImageRequest("u", deadline: .seconds(86_401))) }),
            ("limit", { _ = try await images.list(limit: 0) }), ("limit", { _ = try await images.list(limit: 1001) }),
            ("limit", { _ = try await config.history(limit: 0) }),
            ("limit", { _ = try await config.history(limit: 10_001) }),
            ("images", { for try await _ in images.prefetch(at: []) {} }),
            ("concurrency", { for try await _ in images.prefetch(at: ["u"], concurrency: 0) {} }),
            ("concurrency", { for try await _ in images.prefetch(at: ["u"], concurrency: 65) {} }),
            ("download", { try await images.cancel(download: 0) }),
            ("attempts", { try await config.update(at: "a", as: Int.self, attempts: 0) { $0 += 1 } }),
            ("chunkSize", { try await items.importAll([Item(id: "1")], chunkSize: 0) }),
            ("from", { _ = try await config.diff(from: -1) }), ("to", { _ = try await config.diff(from: 1, to: -1) }),
            ("revision", { try await config.rollback(to: -1) }), ("revision", { try await config.pin(revision: -1) }),
            ("revision", { try await config.unpin(revision: -1) }),
            ("revision", { try await config.wait(for: .revisionAtLeast(-1)) }),
            ("ifRevision", { try await config.apply(ifRevision: .equals(-1)) { $0.set(1, at: "a") } }),
            ("by", { try await config.increment(at: "a", by: .max) }),
            ("minimum", { try await config.increment(at: "a", minimum: .min) }),
            ("maximum", { try await config.increment(at: "a", maximum: .max) }),
            ("path", { try await config.increment(at: "") }),
            (
                "number of changes",
                { try await config.apply { list in for number in 0...1000 { list.set(1, at: "a\(number)") } } }
            ),
        ])
    }

    @Test("the limits of the ranges are valid")
    func limits() async throws {
        let client = try await TestAgent(["a": 1]).client()
        try await client.config.set(2, at: "a", ttl: .seconds(3660 * 86_400))
        try await client.config.wait(for: .equals(2), at: "a", timeout: .zero)
        try await client.config.wait(for: .equals(2), at: "a", timeout: .seconds(3660 * 86_400))
        #expect(try await client.config.history(limit: 10_000).isEmpty == false)
    }

    @Test("an infinity or NaN anywhere in a value is refused with its path, and no value is changed")
    func notFinite() async throws {
        let client = try await TestAgent(["a": 1]).client()
        let config = client.config
        let nan = JSONValue.double(.nan)
        await expectRefusals(of: [
            ("\"a\"", { try await config.set(nan, at: "a") }),
            ("\"a.1\"", { try await config.set([1, nan], at: "a") }),
            ("\"a.b.0\"", { try await config.apply { $0.set(["b": [.double(.infinity)]], at: "a") } }),
            ("\"a.0\"", { try await config.apply { $0.set(2, at: "a", ifValue: .equals([nan])) } }),
            ("\"a.0\"", { try await config.apply { $0.require(.equals([nan]), at: "a") } }),
            ("\"a.0\"", { try await config.wait(for: .equals([nan]), at: "a") }),
            ("\"x.0\"", { try await config.push(["x": [nan]]) }),
            ("\"x.0\"", { try await config.replaceAll(with: ["x": [nan]]) }),
            ("\"value.0\"", { _ = try await client.call("config.set", params: ["path": "a", "value": [nan]]) }),
            ("it is inf", { try await config.set(encoding: Double.infinity, at: "a") }),
            (
                "\"weights.1.x\" is inf",
                { try await config.set(encoding: Sample(weights: [[:], ["x": .infinity]]), at: "a") }
            ),
            ("\"ratio\" is nan", { try await config.set(encoding: Sample(ratio: nan), at: "a") }),
            ("\"ratio.0\" is nan", { try await config.set(encoding: Sample(ratio: [nan]), at: "a") }),
            ("\"b\"", { try await config.set(encoding: ["b": nan] as JSONValue, at: "a") }),
            ("\"0\" is -inf", { try await config.update(at: "b", default: [1.0]) { $0 = [-.infinity] } }),
        ])
        #expect(try await config.snapshot().value == ["a": 1])
        let value: JSONValue = ["bad": nan, "good": [.null, 2]]
        try await config.set(try #require(value["good"]), at: "b")
        #expect(try await config.snapshot(at: "b").value == [.null, 2])
    }
}
