import LarderClient

/// The elements of a stream of the library, which a task of its own consumes. The test can act between two elements.
func following<Stream: AsyncSequence & Sendable>(
    _ stream: Stream
) -> AsyncThrowingStream<Stream.Element, any Error> where Stream.Element: Sendable {
    AsyncThrowingStream { continuation in
        let task = Task {
            do {
                for try await element in stream { continuation.yield(element) }
                continuation.finish()
            } catch {
                continuation.finish(throwing: error)
            }
        }
        continuation.onTermination = { _ in task.cancel() }
    }
}

/// Runs a call that must fail, and returns its error.
func failure<Result>(_ call: () async throws(LarderClientError) -> Result) async -> LarderClientError? {
    do throws(LarderClientError) {
        _ = try await call()
        return nil
    } catch {
        return error
    }
}
