internal import Synchronization

/// "Something happened", from any thread to the one task that follows a path. Raising it twice before it is heard is the
/// same as raising it once.
final class WatchSignal: Sendable {
    /// One element after one or more signals.
    let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation
    private let raised = Atomic<Int>(0)

    init() { (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1)) }

    /// How often it was raised.
    var count: Int { raised.load(ordering: .acquiring) }

    func raise() {
        raised.add(1, ordering: .acquiringAndReleasing)
        continuation.yield()
    }

    func finish() { continuation.finish() }
}
