import LarderConfigModel
import LarderHTTPSemantics
import LarderJSON
import LarderPlatform
import LarderUpstream
import Synchronization

/// A remote layer that comes as server-sent events: a whole document, then patches or further whole ones.
///
/// The connection is kept for as long as ``changes()`` has a consumer. When it ends, a ``ReconnectPlan`` says when the next
/// one is made.
/// Each event is signalled; the flow then takes what the stream has told by then.
final class SSESource: ConfigSource {
    let configuration: SSESourceSettings
    private let plan: ReconnectPlan
    let fetcher: HTTPFetcher
    let blocking: BlockingWork
    let clock: any Clock<Duration>
    private let generator: any RandomNumberGenerator & Sendable
    let state = Mutex(StreamState())

    /// A stream that resumed, delivered nothing and then broke succeeded if it lasted so long. A shorter one may be that of a
    /// proxy that accepts connections and cannot forward them.
    private static let steadyAfter = Duration.seconds(30)

    init(
        configuration: SSESourceSettings, plan: ReconnectPlan, fetcher: HTTPFetcher, blocking: BlockingWork,
        clock: any Clock<Duration>, generator: any RandomNumberGenerator & Sendable
    ) {
        self.configuration = configuration
        self.plan = plan
        self.fetcher = fetcher
        self.blocking = blocking
        self.clock = clock
        self.generator = generator
    }

    var kind: String { "sse" }
    var location: String { SourceURL.display(configuration.url) }
    var reconnects: Bool { true }

    // MARK: Questions

    func fetch(
        ifChangedFrom validator: Validator?, on occasion: FetchOccasion
    ) async throws(ConfigError) -> SourceAnswer {
        switch occasion {
        case .signalled:
            let (answer, effects) = state.withLock { $0.answer(location: location) }
            effects.signal?.yield()
            return try answer.get()
        case .asked, .forced, .awaiting:
            guard let url = configuration.pollURL else { return .document(try await readAnew()) }
            let (told, known) = state.withLock { ($0.told, $0.document?.validator) }
            // "Not modified" must speak of the document that the next patch is applied to.
            let answer = try await poll(url, ifChangedFrom: validator == known ? validator : nil)
            let (taken, parked) = state.withLock { state in
                (state.take(answer, askedAt: told), state.unpark())
            }
            (taken.interrupted ?? parked)?.cancel()
            return taken.answer
        }
    }

    /// Asks for the whole document; nil where it is still the one that the validator stands for.
    func poll(
        _ url: String, ifChangedFrom validator: Validator?
    ) async throws(ConfigError) -> SourceDocument? {
        var request = FetchRequest(
            url: url, validator: validator,
            timeouts: FetchTimeouts(idle: configuration.timeout, whole: configuration.timeout),
            maximumBytes: configuration.maximumBytes)
        try await configuration.access.open(&request, blocking)
        let response: FetchResponse
        do {
            response = try await fetcher.fetch(request)
        } catch {
            throw ConfigError(error)
        }
        guard case .document(let answer) = response else { return nil }
        let reading = DocumentReader(
            location: SourceURL.display(url), versionPath: configuration.versionPath,
            versionRequirement: configuration.versionRequirement)
        return try await reading.document(in: answer.body, validator: answer.validator)
    }

    /// Has a new connection bring the whole document, and waits for it or for what is wrong.
    private func readAnew() async throws(ConfigError) -> SourceDocument {
        // Before the consumer comes, who takes his time at a start, the connection lasts as long as the question.
        let own = state.withLock { $0.hasConsumer } ? nil : connections()
        defer { own?.end() }
        let id = Mutex<Int?>(nil)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: StreamState.Waiter) in
                let (own, interrupted) = state.withLock { $0.await(waiter) }
                id.withLock { $0 = own }
                interrupted?.cancel()
                if Task.isCancelled { leave(own) }
            }
        } onCancel: {
            if let own = id.withLock({ $0 }) { leave(own) }
        }
        return try result.get()
    }

    private func leave(_ waiter: Int) {
        state.withLock { $0.leave(waiter) }?
            .resume(returning: .failure(ConfigError(.cancelled, "the request to \(location) was cancelled")))
    }

    // MARK: The stream

    func changes() -> AsyncStream<Void>? {
        let connections = connections()
        connections.signal.onTermination = { _ in connections.end() }
        return connections.changes
    }

    /// One connection after the other.
    private struct Connections: Sendable {
        let changes: AsyncStream<Void>
        let signal: AsyncStream<Void>.Continuation
        let end: @Sendable () -> Void
    }

    private func connections() -> Connections {
        let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let consumer = state.withLock { $0.begin(signal) }
        let task = Task { await self.follow(consumer) }
        return Connections(changes: changes, signal: signal) {
            task.cancel()
            self.state.withLock { $0.end(consumer) }
        }
    }

    private func follow(_ consumer: Int) async {
        var generator = generator
        var plan = plan
        while !Task.isCancelled {
            let (end, duration) = await measured(on: clock) {
                await interruptible(consumer) { await self.connect(consumer) }
            }
            if Task.isCancelled { return }
            switch end {
            case nil:
                continue
            case .parked(let error):
                fail(error, isParked: true, consumer)
                await pause(nil, consumer)
            case .ended:
                let retry = state.withLock { $0.retry }
                await pause(plan.delay(after: .delivered, notBefore: retry, using: &generator), consumer)
            case .failed(let error, let hasDelivered):
                let (isGood, retry) = state.withLock { ($0.isGood, $0.retry) }
                fail(error, isParked: false, consumer)
                // A new connection may well bring the event that was rejected once more.
                let isWorking = hasDelivered || isGood && duration >= Self.steadyAfter
                let end: ReconnectPlan.End = isWorking && error.code != .rejected ? .delivered : .failed
                let floor = [error.retryAfter, retry].compactMap { $0 }.max()
                await pause(plan.delay(after: end, notBefore: floor, using: &generator), consumer)
            }
        }
    }

    private func fail(_ error: ConfigError, isParked: Bool, _ consumer: Int) {
        state.withLock { $0.fail(error, isParked: isParked, for: consumer) }.carryOut(.failure(error))
    }

    /// Waits, for ever where no duration is given, or until there is something better to do.
    private func pause(_ duration: Duration?, _ consumer: Int) async {
        let clock = clock
        _ = await interruptible(consumer) {
            repeat {
                try? await clock.sleep(for: duration ?? .seconds(86_400))
            } while duration == nil && !Task.isCancelled
            return nil
        }
    }

    /// Runs a body to its end; nil where it was interrupted.
    private func interruptible(
        _ consumer: Int, _ body: @escaping @Sendable () async -> StreamEnd?
    ) async -> StreamEnd? {
        let task = Task { await body() }
        if state.withLock({ $0.goesOn(task, for: consumer) }) { task.cancel() }
        let end = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        return state.withLock { $0.ended(for: consumer) } ? nil : end
    }

    private func measured(
        on clock: some Clock<Duration>, _ body: () async -> StreamEnd?
    ) async -> (StreamEnd?, Duration) {
        let start = clock.now
        let end = await body()
        return (end, start.duration(to: clock.now))
    }
}
