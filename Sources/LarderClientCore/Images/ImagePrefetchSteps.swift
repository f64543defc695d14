public import LarderProtocol

/// The progress of an `image.prefetch` request as a stream. The last element is the summary.
///
/// ```swift
/// let items = urls.map { ImagePrefetch.Item(ImageReference(url: $0)) }
/// for try await case .progress(let progress) in client.images.prefetch(items) {
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
        case progress(ImageProgress)
        /// The summary: how many images were downloaded, cached or failed.
        case finished(ImagePrefetch.Result)
    }
    /// The error that ends the stream: `cancelled` if the task was cancelled, or the error of the request.
    public typealias Failure = LarderClientError

    let client: LarderClient
    let parameters: ImagePrefetch.Parameters

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

/// Runs one iteration over ``ImagePrefetchSteps``. All work runs in the consumer's task, while that task awaits the
/// next step.
final class PrefetchRun {
    private enum State {
        case notBegun
        case running(Call)
        case ended
    }

    /// A request and the stream of its steps. The request is cancelled when the last reference to this object is
    /// released, for example when the consumer leaves its loop.
    private final class Call {
        let connection: Connection
        let id: Int
        let steps: AsyncStream<Step>

        init(connection: Connection, id: Int, steps: AsyncStream<Step>) {
            self.connection = connection
            self.id = id
            self.steps = steps
        }

        deinit { connection.cancel(id) }
    }

    private enum Step: Sendable {
        case progress(ImageProgress)
        case outcome(CallOutcome)
    }

    private let client: LarderClient
    private let parameters: ImagePrefetch.Parameters
    private var state = State.notBegun

    init(client: LarderClient, parameters: ImagePrefetch.Parameters) {
        self.client = client
        self.parameters = parameters
    }

    /// Waits for the next step. Returns nil after the summary.
    func next() async throws(LarderClientError) -> ImagePrefetchSteps.Element? {
        do throws(LarderClientError) {
            return try await step()
        } catch {
            state = .ended
            throw error
        }
    }

    private func step() async throws(LarderClientError) -> ImagePrefetchSteps.Element? {
        // A connection may close after this method chose it but before the request is written. The request was then not
        // sent, and the next attempt uses another connection.
        for _ in 0..<3 {
            if Task.isCancelled { throw .cancelled }
            let call: Call
            switch state {
            case .ended: return nil
            case .running(let running): call = running
            case .notBegun: call = begin(over: try await client.slot.connection())
            }
            state = .running(call)
            var steps = call.steps.makeAsyncIterator()
            switch await steps.next() {
            // The stream ends after an outcome, or when the task is cancelled.
            case nil: throw .cancelled
            case .progress(let progress): return .progress(progress)
            case .outcome(.failure(let error)): throw error
            case .outcome(.result(let value)):
                let result = try ImagePrefetch.read(value)
                state = .ended
                return .finished(result)
            case .outcome(.notSent): state = .notBegun
            }
        }
        throw LarderClientError(
            .disconnected, "the agent closed 3 connections in a row", advice: "check the agent's log")
    }

    private func begin(over connection: Connection) -> Call {
        // A buffer for one step is enough. The outcome is the last step, so a newer step can only replace progress.
        let (steps, continuation) = AsyncStream.makeStream(of: Step.self, bufferingPolicy: .bufferingNewest(1))
        // The client's timeout does not apply, because a prefetch may take arbitrarily long.
        let id = connection.begin(
            ImagePrefetch.name, timeout: nil, purpose: .prefetch { continuation.yield(.progress($0)) },
            params: { parameters.write(to: &$0) },
            caller: { outcome in
                continuation.yield(.outcome(outcome))
                continuation.finish()
            })
        return Call(connection: connection, id: id, steps: steps)
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
    public typealias Element = [ImageDownloads.Download]
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
                    failures = 0
                    pause = Self.interval
                    if list == newest { continue }
                    newest = list
                    return list
                } catch {
                    if Task.isCancelled { return nil }
                    guard error.isRetryable else { throw error }
                    pause = client.configuration.backoff.delay(beforeAttempt: failures)
                    failures += 1
                }
            }
            return nil
        }
    }
}
