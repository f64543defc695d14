/// Runs work off every actor. Returns its result, or throws its error.
///
/// A `@concurrent` function must not throw itself: with Swift 6.3, a function that runs on the actor of its caller, and
/// forwards the error of a `@concurrent` function, does not return to that actor. The caller then no longer has its actor
/// to itself. Nor does a closure run off every actor whose type is not `@concurrent`.
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
