public import LarderProtocol

/// How an `image.prefetch` goes: progress, then the summary, which is the last step.
///
/// Each iteration is a request of its own. A consumer that is slow gets the newest progress next. When the task is
/// cancelled, or the loop is left, the agent stops; what is complete by then stays in the cache.
public struct ImagePrefetchSteps: AsyncSequence, Sendable {
    /// One step.
    public enum Element: Sendable, Hashable {
        /// How far it has come.
        case progress(ImageProgress)
        /// How the images fared.
        case finished(ImagePrefetch.Result)
    }
    /// What it throws: `cancelled` where the task was cancelled, and what other calls throw.
    public typealias Failure = LarderClientError

    let client: LarderClient
    let parameters: ImagePrefetch.Parameters

    /// Begins an iteration; the request leaves when the first step is asked for.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(run: PrefetchRun(client: client, parameters: parameters))
    }

    /// One iteration.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let run: PrefetchRun

        /// Waits for the next step; nil after the summary.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(LarderClientError) -> Element? {
            try await run.next()
        }
    }
}

/// The state of one iteration over ``ImagePrefetchSteps``. Everything happens in the consumer's own task, while it asks for
/// the next step.
final class PrefetchRun {
    private enum State {
        case notBegun
        case running(Call)
        case ended
    }

    /// The request and what it brings. It ends when its run goes, because the consumer left its loop.
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

    /// Waits for the next step; nil after the last.
    func next() async throws(LarderClientError) -> ImagePrefetchSteps.Element? {
        do throws(LarderClientError) {
            return try await step()
        } catch {
            state = .ended
            throw error
        }
    }

    private func step() async throws(LarderClientError) -> ImagePrefetchSteps.Element? {
        // A connection may end between being picked and being written to; then nothing was sent and the next one serves.
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
            // The stream ends with an outcome or with the task.
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
        throw LarderClientError(.disconnected, "the agent closes every connection at once", advice: "see its log")
    }

    private func begin(over connection: Connection) -> Call {
        // The newest is enough: the outcome is the last.
        let (steps, continuation) = AsyncStream.makeStream(of: Step.self, bufferingPolicy: .bufferingNewest(1))
        // The client's time for a call is meant for one that has something to answer soon.
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
