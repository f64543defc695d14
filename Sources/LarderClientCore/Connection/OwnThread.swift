import CLinuxShims

/// Runs blocking work on a separate thread. If a task did that work, it would block one of the few threads that run
/// tasks, and could delay other tasks.
package func onOwnThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
        let box = Unmanaged.passRetained(Work { continuation.resume(returning: work()) })
        let failure = larder_start_thread(
            "blocking-work", 0,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().body()
                return nil
            }, box.toOpaque())
        // If no thread can be created, the work runs in the calling task and blocks one of the threads that run tasks.
        if failure != 0 { box.takeRetainedValue().body() }
    }
}

private final class Work: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}
