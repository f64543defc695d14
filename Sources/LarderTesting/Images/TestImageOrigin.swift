public import LarderClientCore
import LarderUpstream
import Synchronization

/// A web server in memory, from which the image cache of a ``TestAgent`` fetches images.
///
/// ```swift
/// let origin = TestImageOrigin()
/// origin.add(TestImageOrigin.png, at: "https://img.example.org/logo.png")
/// let agent = try await TestAgent(images: origin)
/// let image = try await agent.client().images.get("https://img.example.org/logo.png")
/// ```
///
/// A transfer can be held at any byte, so that the test sees its progress:
///
/// ```swift
/// origin.hold(at: "https://img.example.org/logo.png", after: 20)
/// let image = Task { try await client.images.get("https://img.example.org/logo.png") }
/// try await origin.waitUntilHeld(at: "https://img.example.org/logo.png")
/// origin.release(at: "https://img.example.org/logo.png")
/// ```
public final class TestImageOrigin: Sendable {
    /// A PNG image: a red square of 2 by 2 pixels.
    public static let png: [UInt8] = [
        0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0x00, 0x00, 0x00, 0x0D, 0x49, 0x48, 0x44, 0x52,
        0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x08, 0x02, 0x00, 0x00, 0x00, 0xFD, 0xD4, 0x9A,
        0x73, 0x00, 0x00, 0x00, 0x10, 0x49, 0x44, 0x41, 0x54, 0x78, 0xDA, 0x63, 0xF8, 0xCF, 0xC0, 0x00,
        0x44, 0x0C, 0x10, 0x0A, 0x00, 0x1F, 0xEE, 0x03, 0xFD, 0x63, 0x5E, 0xBB, 0x5B, 0x00, 0x00, 0x00,
        0x00, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82,
    ]

    private struct Answer {
        var status: Int
        var body: [UInt8]
        var fields: [(name: String, value: String)]
    }

    private struct State {
        var answers: [String: Answer] = [:]
        var versions = 0
        var requests: [String: Int] = [:]
        /// The number of bytes after which the transfers of a URL wait.
        var holds: [String: Int] = [:]
        var held: [Int: (url: String, continuation: CheckedContinuation<Void, Never>)] = [:]
        var lastID = 0
        /// The tasks that wait for a held transfer. They get true when a transfer of the URL is held.
        var watchers: [(url: String, wait: AsyncStream<Bool>.Continuation)] = []

        mutating func takeHeld(_ url: String) -> [CheckedContinuation<Void, Never>] {
            let ended = held.filter { $0.value.url == url }
            for id in ended.keys { held[id] = nil }
            return ended.values.map(\.continuation)
        }
    }

    private let state = Mutex(State())

    /// Creates an origin without images. It responds to every request with the status 404.
    public init() {}

    /// Serves an image, in place of what the origin has served at the URL before.
    /// - Parameters:
    ///   - bytes: the file. The cache rejects content that is not an image.
    ///   - url: an absolute `http` or `https` URL.
    ///   - maximumAge: how long a cached copy is fresh, in whole seconds on the clock of the agent.
    public func add(_ bytes: [UInt8], at url: String, maximumAge: Duration = .seconds(3600)) {
        state.withLock { state in
            state.versions += 1
            state.answers[Self.key(url)] = Answer(
                status: 200, body: bytes,
                fields: [
                    ("Cache-Control", "max-age=\(maximumAge.components.seconds)"),
                    ("Content-Length", "\(bytes.count)"), ("ETag", "\"\(state.versions)\""),
                ])
        }
    }

    /// Responds with an error status, in place of what the origin has served at the URL before.
    ///
    /// ```swift
    /// origin.fail(at: "https://img.example.org/logo.png", status: 500)
    /// ```
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL.
    ///   - status: the HTTP status. The cache retries some of them, such as 503, after a time on the clock of the
    ///     agent.
    public func fail(at url: String, status: Int = 404) {
        state.withLock {
            $0.answers[Self.key(url)] = Answer(status: status, body: [], fields: [("Content-Length", "0")])
        }
    }

    /// The number of requests for a URL so far, including those to which the origin responded that the cached image is
    /// current.
    ///
    /// ```swift
    /// #expect(origin.requests(at: "https://img.example.org/logo.png") == 1)
    /// ```
    public func requests(at url: String) -> Int { state.withLock { $0.requests[Self.key(url)] ?? 0 } }

    /// The URL as the image cache requests it.
    private static func key(_ url: String) -> String { (try? FetchURL(parsing: url))?.text ?? url }

    // MARK: Holding transfers

    /// Makes transfers of a URL wait after a number of bytes, until ``release(at:)``.
    public func hold(at url: String, after bytes: Int = 0) { state.withLock { $0.holds[Self.key(url)] = bytes } }

    /// Lets the transfers of a URL continue.
    public func release(at url: String) {
        let url = Self.key(url)
        let ended = state.withLock { state in
            state.holds[url] = nil
            return state.takeHeld(url)
        }
        for continuation in ended { continuation.resume() }
    }

    /// Returns once a transfer of the URL waits because of ``hold(at:after:)``.
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL.
    ///   - limit: the maximum time on the clock of the machine.
    /// - Throws: `timeout` if no transfer waits when the limit has passed; `cancelled` if the task is cancelled.
    public func waitUntilHeld(
        at url: String, within limit: Duration = TestClock.waitLimit
    ) async throws(LarderClientError) {
        let key = Self.key(url)
        try await waitForEvent(within: limit) {
            LarderClientError(
                .timeout, "no transfer of \(url) is held after \(limit); the origin got \(requests(at: url)) requests",
                advice: "call hold(at:after:) before the image is requested, with fewer bytes than the image has")
        } register: { wait in
            state.withLock { state in
                if state.held.values.contains(where: { $0.url == key }) { return true }
                state.watchers.append((key, wait))
                return false
            }
        }
    }

    /// Waits while a transfer that has sent `sent` bytes is held. A cancelled task does not wait.
    private func passHold(_ url: String, sent: Int) async {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isHeld, watchers) = state.withLock { state -> (Bool, [AsyncStream<Bool>.Continuation]) in
                    guard let hold = state.holds[url], sent >= hold, !Task.isCancelled else { return (false, []) }
                    state.held[id] = (url, continuation)
                    let watchers = state.watchers.filter { $0.url == url }
                    state.watchers.removeAll { $0.url == url }
                    return (true, watchers.map(\.wait))
                }
                if !isHeld { continuation.resume() }
                for watcher in watchers { watcher.yield(true) }
            }
        } onCancel: {
            state.withLock { $0.held.removeValue(forKey: id) }?.continuation.resume()
        }
    }

    // MARK: Responses

    /// The origin as the image cache uses it.
    var server: any InProcessOrigin { Server(origin: self) }

    private struct Server: InProcessOrigin {
        let origin: TestImageOrigin

        func respond(to request: InProcessRequest) async throws(UpstreamError) -> InProcessResponse {
            let answer = origin.answer(to: request)
            return InProcessResponse(
                status: answer.status, fields: answer.fields, body: origin.transfer(answer.body, of: request.url))
        }
    }

    private func answer(to request: InProcessRequest) -> Answer {
        state.withLock { state in
            state.requests[request.url, default: 0] += 1
            guard var answer = state.answers[request.url] else {
                return Answer(status: 404, body: [], fields: [("Content-Length", "0")])
            }
            let tag = answer.fields.first { $0.name == "ETag" }?.value
            if let tag, request.fields["if-none-match"] == tag {
                (answer.status, answer.body) = (304, [])
                answer.fields.removeAll { $0.name == "Content-Length" }
            }
            return answer
        }
    }

    /// Sends a body in as few pieces as the holds permit.
    private func transfer(_ body: [UInt8], of url: String) -> AsyncStream<[UInt8]> {
        let progress = TransferProgress()
        return AsyncStream {
            let sent = progress.sent
            if sent == body.count { return nil }
            await self.passHold(url, sent: sent)
            if Task.isCancelled { return nil }
            let hold = self.state.withLock { $0.holds[url] } ?? body.count
            progress.sent = hold > sent ? min(hold, body.count) : body.count
            return Array(body[sent..<progress.sent])
        }
    }
}

/// The number of bytes that a transfer has sent.
private final class TransferProgress: Sendable {
    private let count = Atomic(0)

    var sent: Int {
        get { count.load(ordering: .relaxed) }
        set { count.store(newValue, ordering: .relaxed) }
    }
}
