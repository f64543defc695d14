internal import CLinuxShims

/// Starts a detached thread, which ends when `body` returns.
///
/// - Parameters:
///   - name: the name that top(1) shows, up to 15 bytes
///   - stackBytes: the size of the stack; 0 for the default size
/// - Returns: 0, or the error number if the thread cannot be started
package func startThread(_ name: String, stackBytes: Int = 0, _ body: @escaping @Sendable () -> Void) -> CInt {
    let thread = Unmanaged.passRetained(ThreadBody(body))
    let failure = larder_start_thread(
        name, stackBytes,
        { argument in
            if let argument { Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run() }
            return nil
        }, thread.toOpaque())
    if failure != 0 { thread.release() }
    return failure
}

private final class ThreadBody: Sendable {
    let run: @Sendable () -> Void

    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}
