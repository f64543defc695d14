import LarderHTTPSemantics
import LarderPlatform
import LarderUpstream
import Synchronization

@testable import LarderImages

/// An origin client with responses that the test scripts and may delay. It writes bodies to the disk as a download
/// does.
final class FakeOrigin: ImageOriginClient {
    /// A response to a request.
    enum Answer: Sendable {
        case image([UInt8], [(String, String)])
        /// A 304. The download fails if the request has no condition.
        case notModified([(String, String)])
        case failure(ImageError)
        /// The attempt fails, and the next one waits for ``FakeOrigin/resume()``.
        case failedAttempt(ImageError)
    }

    /// A received request. It has copies of the values of the ``DownloadOrder``, because the order itself refers to the
    /// cache.
    struct Request: Sendable {
        let url: String
        let headers: [(name: String, value: String)]
        let cached: StoredResponse?
    }

    private struct State {
        var script: @Sendable (DownloadOrder) -> Answer
        var requests: [Request] = []
        var cancelled = 0
        var isPaused = false
        var gates: [Int: CheckedContinuation<Void, Never>] = [:]
        var number = 0
    }

    private let state: Mutex<State>
    private let disk: ImageDiskCache
    private let clock: TestClock

    let requestFields = [(name: "Accept", value: "image/*"), (name: "User-Agent", value: "larder")]

    func update(allowedNetworks: [AddressRange]) {}

    init(_ disk: ImageDiskCache, _ clock: TestClock) {
        (self.disk, self.clock) = (disk, clock)
        state = Mutex(State(script: { _ in .failure(.unreachable) }))
    }

    /// Sets the response to all further requests.
    func answer(_ script: @escaping @Sendable (DownloadOrder) -> Answer) { state.withLock { $0.script = script } }

    /// Responds to all further requests with one image.
    func answer(_ bytes: [UInt8], _ fields: [(String, String)] = [("Cache-Control", "max-age=60")]) {
        answer { _ in .image(bytes, fields) }
    }

    func fail(_ error: ImageError = .unreachable) { answer { _ in .failure(error) } }

    /// Delays further requests until ``resume()``.
    func pause() { state.withLock { $0.isPaused = true } }

    func resume() {
        let gates = state.withLock { state in
            state.isPaused = false
            defer { state.gates = [:] }
            return state.gates.values.map { $0 }
        }
        for gate in gates { gate.resume() }
    }

    var requests: [Request] { state.withLock { $0.requests } }
    /// The number of requests that were cancelled while delayed.
    var cancelled: Int { state.withLock { $0.cancelled } }

    @concurrent
    func download(
        _ order: DownloadOrder, _ progress: DownloadProgress, for owner: any DownloadOwner
    ) async throws(ImageError) -> DownloadOutcome {
        let request = Request(url: order.url, headers: order.headers, cached: order.cached)
        state.withLock { $0.requests.append(request) }
        let now = clock.now
        var answer = try await nextAnswer(order)
        while case .failedAttempt(let error) = answer {
            pause()
            await owner.attemptFailed(order.id, error)
            answer = try await nextAnswer(order)
        }
        func response(_ fields: [(String, String)]) -> StoredResponse {
            StoredResponse(
                status: 200, fields: ResponseFields(fields.map { (name: $0.0, value: $0.1) }), url: order.url,
                request: order.headers, requestTime: now, responseTime: now)
        }
        switch answer {
        case .failure(let error), .failedAttempt(let error): throw error
        case .notModified(let fields):
            guard var cached = order.cached else { throw ImageError(.upstreamFailed, "304 without a condition") }
            _ = cached.freshen(
                with: response(fields).fields, request: order.headers, requestTime: now, responseTime: now)
            return .notModified(cached)
        case .image(let bytes, let fields):
            let blob = try await write(bytes, fields, order, progress, owner)
            return .published(blob, response(fields), url: order.url)
        }
    }

    private func nextAnswer(_ order: DownloadOrder) async throws(ImageError) -> Answer {
        await passGate()
        if Task.isCancelled {
            state.withLock { $0.cancelled += 1 }
            throw ImageError.cancelled
        }
        return state.withLock { $0.script }(order)
    }

    private func passGate() async {
        let number = state.withLock { state in
            state.number += 1
            return state.number
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    if !state.isPaused || Task.isCancelled { return true }
                    state.gates[number] = continuation
                    return false
                }
                if isOpen { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.gates.removeValue(forKey: number) }?.resume()
        }
    }

    /// Writes as a download does: in pieces, and retries each piece after space was reclaimed.
    private func write(
        _ bytes: [UInt8], _ fields: [(String, String)], _ order: DownloadOrder, _ progress: DownloadProgress,
        _ owner: any DownloadOwner
    ) async throws(ImageError) -> PublishedBlob {
        let length = fields.first { $0.0 == "Content-Length" }.flatMap { Int($0.1) }
        let space = SpaceRetry(id: order.id, space: owner, blocking: disk.blocking)
        let writer = try await space.run { [writers = disk.writers] () throws(ImageError) in
            try writers.begin(declaredLength: length)
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            let piece = Array(rest.prefix(400))
            do throws(ImageError) {
                try await space.run { () throws(ImageError) in try writer.append(piece) }
            } catch {
                writer.discard()
                throw error
            }
            progress.add(piece.count)
            rest = rest.dropFirst(piece.count)
        }
        return try await disk.publish(writer, expectedDigest: order.expectedDigest)
    }
}

extension ImageError {
    static let unreachable = ImageError(
        UpstreamError(.connectFailed, "connection refused for /secret", originFailure: "connection refused"))
    static let silent = ImageError(UpstreamError(.timeout, "no response arrived"))
    static func status(_ status: Int, retryAfter: Duration? = nil) -> ImageError {
        ImageError(UpstreamError(.status, "status \(status)", status: status, retryAfter: retryAfter))
    }
}

/// A wall clock and an uptime that the test advances.
final class TestClock: Sendable {
    private let time = Mutex((now: 1_000_000, uptime: 1000))

    var now: Int { time.withLock { $0.now } }
    var uptime: Int { time.withLock { $0.uptime } }
    func advance(_ seconds: Int) { time.withLock { $0 = ($0.now + seconds, $0.uptime + seconds) } }
    /// Sets the wall clock forward, or back if `seconds` is negative.
    func adjust(by seconds: Int) { time.withLock { $0.now += seconds } }

    /// The clock for the cache. A sleep lasts until its task is cancelled.
    var imageClock: ImageClock {
        ImageClock(
            now: { self.now }, uptime: { self.uptime }, sleep: { _ in try await Task.sleep(for: .seconds(1_000_000)) })
    }
}
