import LarderConfigModel
import LarderHTTPSemantics
import LarderPlatform
import LarderUpstream
import Synchronization

/// A source that receives server-sent events: a whole document, then patches or further whole documents.
///
/// The source keeps a connection while ``documents(after:ifChangedFrom:)`` has a consumer. A ``ReconnectPlan`` decides
/// when to reconnect.
final class SSESource: ConfigSource {
    let configuration: SSESourceSettings
    private let plan: ReconnectPlan
    let fetcher: HTTPFetcher
    let blocking: BlockingThreadPool
    let clock: any Clock<Duration>
    private let generator: any RandomNumberGenerator & Sendable
    private let report: @Sendable () -> PollReport?
    /// The task of the connection, the consumer, fetches and cancellation handlers, which run on any thread, share it.
    let state = Mutex(SSEStreamState())
    private let lastWaiterID = Atomic(0)

    let location: String
    let identity: String
    var reconnects: Bool { true }

    /// A connection that resumed, delivered no document and then broke counts as a failure unless it lasted this long.
    /// A proxy that cannot reach the origin may accept connections and close them sooner.
    private static let minWorkingDuration = Duration.seconds(30)

    init(
        configuration: SSESourceSettings, plan: ReconnectPlan, fetcher: HTTPFetcher, blocking: BlockingThreadPool,
        clock: any Clock<Duration>, generator: any RandomNumberGenerator & Sendable,
        report: @escaping @Sendable () -> PollReport? = { nil }
    ) {
        self.configuration = configuration
        self.plan = plan
        self.fetcher = fetcher
        self.blocking = blocking
        self.clock = clock
        self.generator = generator
        self.report = report
        location = SourceURL.display(configuration.url)
        identity = configuration.identity
    }

    // MARK: Fetches

    func fetch(
        ifChangedFrom validator: Validator?, reason: FetchReason
    ) async throws(ConfigError) -> SourceResponse {
        guard let url = configuration.pollURL else { return .document(try await readWhole()) }
        if state.withLock({ $0.isConnecting }) {
            do {
                // Each new connection polls the document.
                return .document(try await readWhole())
            } catch {
                if error.code == .cancelled { throw error }
                // Without the stream, a poll still returns the document. ``following`` has the error.
            }
        }
        let (deliveries, newest) = state.withLock { ($0.documents.deliveries, $0.documents.newest?.validator) }
        // The validator is sent only if it is that of the newest document, because "not modified" must refer to the
        // document to which the next patch applies.
        let response = try await poll(url, ifChangedFrom: validator == newest ? validator : nil)
        let accepted = state.withLock { $0.accept(response, requestedAt: deliveries) }
        accepted.interrupted?.cancel()
        return accepted.answer
    }

    var following: SourceFollowing {
        // Without a failure, a fetch returns only after the connection has been established.
        state.withLock { state in state.hasConsumer ? state.failure.map { .failing($0) } ?? .working : .working }
    }

    /// The header fields with which a request reports the state of the host; empty if the settings do not request it.
    var reportFields: [(name: String, value: String)] { configuration.reportsToSource ? report()?.fields ?? [] : [] }

    var fetchOrder: Int? { state.withLock { $0.fetchOrder } }

    /// Polls the whole document; nil if it has not changed.
    func poll(
        _ url: String, ifChangedFrom validator: Validator?
    ) async throws(ConfigError) -> SourceDocument? {
        var request = FetchRequest(
            url: url, validator: validator,
            timeouts: FetchTimeouts(idle: configuration.timeout, whole: configuration.timeout),
            maximumBytes: configuration.maximumBytes)
        request.ownHeaders = reportFields
        try await request.add(configuration.access, blocking)
        let response: FetchResponse
        do {
            response = try await fetcher.fetch(request)
        } catch {
            throw ConfigError(error)
        }
        guard case .document(let answer) = response else { return nil }
        let reader = DocumentReader(
            location: SourceURL.display(url), versionPath: configuration.versionPath,
            versionRequirement: configuration.versionRequirement)
        return try await reader.document(in: answer.body, validator: answer.validator)
    }

    /// Reads a whole document from a new connection. Ends a pause between connections.
    private func readWhole() async throws(ConfigError) -> SourceDocument {
        // If ``documents(after:ifChangedFrom:)`` has no consumer, this fetch makes its own connection.
        let own = connections(isTemporary: true)
        defer { own?.end() }
        let id = lastWaiterID.wrappingAdd(1, ordering: .relaxed).newValue
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: SSEStreamState.Waiter) in
                state.withLock { $0.add(waiter, id: id) }?.cancel()
                // The cancellation handler may have run before the waiter was added.
                if Task.isCancelled { leave(id) }
            }
        } onCancel: {
            leave(id)
        }
        return try result.get()
    }

    private func leave(_ waiter: Int) {
        state.withLock { $0.leave(waiter) }?
            .resume(returning: .failure(ConfigError(.cancelled, "the request to \(location) was cancelled")))
    }

    // MARK: The stream

    func documents(
        after delay: Duration, ifChangedFrom validator: @escaping @Sendable () async -> Validator?
    ) -> SourceDocuments? {
        guard let connections = connections(after: delay, isTemporary: false) else { return nil }
        // The stream retains this closure, which therefore must not retain the stream.
        connections.signal.onTermination = { [end = connections.end] _ in end() }
        return SourceDocuments(after: connections.signals) {
            let (delivery, effects) = self.state.withLock { $0.delivery() }
            effects.signal?.yield()
            return delivery
        }
    }

    /// The connections that are made for one consumer: the signals that there is a document or failure for it, and a
    /// closure that ends the connections.
    private struct Connections: Sendable {
        let signals: AsyncStream<Void>
        let signal: AsyncStream<Void>.Continuation
        let end: @Sendable () -> Void
    }

    /// - Parameter isTemporary: whether the consumer is a fetch
    /// - Returns: nil for a fetch if there is another consumer
    private func connections(after delay: Duration = .zero, isTemporary: Bool) -> Connections? {
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let begun = state.withLock { state in
            state.begin(signal, isTemporary: isTemporary) { consumer in
                Task { await self.follow(consumer, after: delay) }
            }
        }
        guard let (consumer, task) = begun else { return nil }
        return Connections(signals: signals, signal: signal) {
            if self.state.withLock({ $0.end(consumer, isTemporary: isTemporary) }) { task.cancel() }
        }
    }

    private func follow(_ consumer: Int, after delay: Duration) async {
        var generator = generator
        var plan = plan
        if delay > .zero { await pause(delay, consumer) }
        while !Task.isCancelled {
            let elapsed = clock.stopwatch()
            let connection = SSEConnection(source: self, consumer: consumer)
            let end = await interruptible(consumer) { await connection.run() }
            let duration = elapsed()
            if Task.isCancelled { return }
            switch end {
            case nil:
                continue
            case .parked(let error):
                fail(error, consumer)
                await pause(nil, consumer)
            case .ended:
                let retry = state.withLock { $0.retry }
                await pause(plan.delay(after: .delivered, notBefore: retry, using: &generator), consumer)
            case .failed(let error, let hasDelivered):
                let (isEstablished, retry) = state.withLock { ($0.isEstablished, $0.retry) }
                fail(error, consumer)
                // A new connection may deliver the rejected event again, so a rejection counts as a failure even after
                // documents were delivered.
                let isWorking = hasDelivered || isEstablished && duration >= Self.minWorkingDuration
                let end: ReconnectPlan.End = isWorking && !error.isRejection ? .delivered : .failed
                let floor = [error.retryAfter, retry].compactMap { $0 }.max()
                await pause(plan.delay(after: end, notBefore: floor, using: &generator), consumer)
            }
        }
    }

    private func fail(_ error: ConfigError, _ consumer: Int) {
        state.withLock { $0.fail(error, for: consumer) }.carryOut(.failure(error))
    }

    /// Sleeps until interrupted, for at most `duration`; nil for no limit.
    private func pause(_ duration: Duration?, _ consumer: Int) async {
        let clock = clock
        _ = await interruptible(consumer, isPause: true) {
            repeat {
                try? await clock.sleep(for: duration ?? .seconds(86_400))
            } while duration == nil && !Task.isCancelled
            return nil
        }
    }

    /// Runs a connection or a pause, which a fetch can interrupt. Returns nil if a fetch interrupted it.
    private func interruptible(
        _ consumer: Int, isPause: Bool = false, _ body: @escaping @Sendable () async -> SSEStreamEnd?
    ) async -> SSEStreamEnd? {
        let task = Task { await body() }
        if state.withLock({ $0.began(task, isPause: isPause, for: consumer) }) { task.cancel() }
        let end = await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        return state.withLock { $0.ended(for: consumer) } ? nil : end
    }
}
