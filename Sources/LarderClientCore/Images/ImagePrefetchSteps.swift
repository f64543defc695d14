package import LarderProtocol

/// The progress of an `image.prefetch` request as a stream. The last element is the summary.
///
/// ```swift
/// let images = urls.map { LarderImageRequest($0) }
/// for try await case .progress(let progress) in client.images.prefetch(images) {
///     print("\(progress.done) of \(progress.total)")
/// }
/// ```
///
/// Each iteration sends its own request. A slow consumer gets the newest progress next. If the task is cancelled or the
/// loop is left, the agent stops the prefetch. Images that it has completed stay in the cache.
public struct ImagePrefetchSteps: AsyncSequence, Sendable {
    /// An element of the stream.
    public enum Element: Sendable, Hashable {
        /// The progress so far.
        case progress(PrefetchProgress)
        /// The summary: how many images were downloaded, cached or failed.
        case finished(PrefetchSummary)
    }
    /// The error that ends the stream: `cancelled` if the task was cancelled, or the error of the request.
    public typealias Failure = LarderClientError

    let client: LarderClient
    let parameters: ImagePrefetch.Parameters

    package init(client: LarderClient, parameters: ImagePrefetch.Parameters) {
        self.client = client
        self.parameters = parameters
    }

    /// Starts an iteration. The request is sent when the first element is requested.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(run: PrefetchRun(client: client, parameters: parameters))
    }

    /// An iteration over the progress.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let run: PrefetchRun

        /// Waits for the next element. Returns nil after the summary.
        /// - Throws: `cancelled` if the task is cancelled, or the error of the request.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> Element? {
            try await run.next()
        }
    }
}

/// Runs one iteration over ``ImagePrefetchSteps``. The request runs in a task of its own. That task is cancelled when the
/// last reference to this object is released, for example when the consumer leaves its loop.
final class PrefetchRun {
    private enum Step: Sendable {
        case progress(PrefetchProgress)
        case outcome(Result<ImagePrefetch.Result, LarderClientError>)
    }

    private let client: LarderClient
    private let parameters: ImagePrefetch.Parameters
    private let steps: AsyncStream<Step>
    private let continuation: AsyncStream<Step>.Continuation
    private var request: Task<Void, Never>?
    private var isEnded = false

    init(client: LarderClient, parameters: ImagePrefetch.Parameters) {
        self.client = client
        self.parameters = parameters
        // A buffer for one step is enough. The outcome is the last step, so a newer step can only replace progress.
        (steps, continuation) = AsyncStream.makeStream(of: Step.self, bufferingPolicy: .bufferingNewest(1))
    }

    deinit { request?.cancel() }

    /// Waits for the next step. Returns nil after the summary.
    func next() async throws(LarderClientError) -> ImagePrefetchSteps.Element? {
        if isEnded { return nil }
        if request == nil, !Task.isCancelled { request = begin() }
        var iterator = steps.makeAsyncIterator()
        let step = await iterator.next()
        if case .progress(let progress) = step { return .progress(progress) }
        isEnded = true
        // The stream ends without an outcome when the task is cancelled.
        guard case .outcome(let outcome) = step else {
            request?.cancel()
            throw .cancelled
        }
        return .finished(PrefetchSummary(try outcome.get()))
    }

    private func begin() -> Task<Void, Never> {
        Task { [client, parameters, continuation] in
            do throws(LarderClientError) {
                try CallArguments.check(
                    parameters.items.count, "the number of images", in: 1...ImagePrefetch.Parameters.maxItems)
                try CallArguments.check(
                    parameters.concurrency, "concurrency", in: 1...64,
                    advice: "pass nil for 16")
                let (result, _) = try await client.send(
                    ImagePrefetch.self, parameters,
                    purpose: .prefetch { continuation.yield(.progress(PrefetchProgress($0))) })
                continuation.yield(.outcome(.success(result)))
            } catch {
                continuation.yield(.outcome(.failure(error)))
            }
            continuation.finish()
        }
    }
}

/// The lists of downloads in progress as a stream: the current list, and then each list that differs from the one
/// before.
///
/// ```swift
/// for try await downloads in client.images.downloads {
///     print("\(downloads.count) downloads")
/// }
/// ```
///
/// An iteration requests the list once per second, on the clock of the client. It continues after a restart of the
/// agent: while the agent is unreachable, it tries to connect after the delays of
/// ``LarderClient/Configuration/backoff``. It ends when the task is cancelled.
public struct ImageDownloadLists: AsyncSequence, Sendable {
    /// The downloads in progress, in ascending order of ID.
    public typealias Element = [ImageDownload]
    /// The error that ends the stream.
    public typealias Failure = LarderClientError

    let client: LarderClient

    /// Starts an iteration. It requests the first list when the first element is requested.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(client: client) }

    /// An iteration over the lists.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private static let interval = Duration.seconds(1)

        let client: LarderClient
        private var newest: Element?
        private var failures = 0
        private var pause = Duration.zero

        init(client: LarderClient) { self.client = client }

        /// Waits for the next list. Returns nil once the task is cancelled.
        /// - Throws: an error that a retry cannot resolve, such as `remote` with `unavailable` without an image cache.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> Element? {
            while !Task.isCancelled {
                do {
                    if pause > .zero { try await client.configuration.clock.sleep(for: pause) }
                } catch {
                    return nil
                }
                do throws(LarderClientError) {
                    let list = try await client.call(ImageDownloads.self, NoParameters()).downloads
                        .map(ImageDownload.init)
                    failures = 0
                    pause = Self.interval
                    if list == newest { continue }
                    newest = list
                    return list
                } catch {
                    if Task.isCancelled { return nil }
                    guard error.isOutage else { throw error }
                    pause = client.configuration.backoff.delay(beforeAttempt: failures)
                    failures += 1
                }
            }
            return nil
        }
    }
}
