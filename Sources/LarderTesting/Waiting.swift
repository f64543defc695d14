import LarderClientCore

/// Waits until `event` is reported, or until a time on the clock of the machine has passed.
/// - Parameters:
///   - limit: the maximum time
///   - failure: creates the error for a wait that reaches the limit
///   - register: returns true if there is nothing to wait for; otherwise keeps the continuation, and later yields true
/// - Throws: the error of `failure`; `cancelled` if the task is cancelled
func waitForEvent(
    within limit: Duration, otherwise failure: () -> LarderClientError,
    register: (AsyncStream<Bool>.Continuation) -> Bool
) async throws(LarderClientError) {
    let (events, event) = AsyncStream.makeStream(of: Bool.self)
    if register(event) { return }
    let timer = Task {
        try await Task.sleep(for: limit)
        event.yield(false)
    }
    defer { timer.cancel() }
    for await isReached in events {
        if isReached { return }
        throw failure()
    }
    throw LarderClientError(.cancelled, "the task was cancelled")
}
