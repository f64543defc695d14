/// Runs work off every actor. Returns its result, or throws its error.
///
/// A `@concurrent` function must not throw itself. With Swift 6.3, a function that runs on its caller's actor, and forwards
/// the error of a `@concurrent` function, continues off that actor. Its caller then shares the actor with other tasks.
/// `work` has a `@concurrent` type, because a closure of another type can run on the caller's actor.
package func concurrently<Success: Sendable, Failure: Error>(
    _ work: @Sendable @concurrent () async throws(Failure) -> Success
) async throws(Failure) -> Success {
    try await resultConcurrently(work).get()
}

@concurrent
private func resultConcurrently<Success: Sendable, Failure: Error>(
    _ work: @Sendable @concurrent () async throws(Failure) -> Success
) async -> Result<Success, Failure> {
    do throws(Failure) {
        return .success(try await work())
    } catch {
        return .failure(error)
    }
}
