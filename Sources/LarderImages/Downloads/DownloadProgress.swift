internal import Synchronization

/// The progress of a download. The thread that receives the bytes updates it, and any thread may read it.
final class DownloadProgress: Sendable {
    /// The part of the image that has been received.
    struct Size: Sendable, Hashable {
        /// The number of bytes received, including those of an earlier attempt that was resumed.
        var received = 0
        /// The size of the image in bytes; nil until a response declares it.
        var total: Int?
    }

    private let bytes = Atomic(0)
    private let awaited = Atomic(false)
    private let total: ByteCounter
    private let state = Mutex(State())

    private struct State {
        var size = Size()
        var observers: [WaiterID: @Sendable (Size) -> Void] = [:]
    }

    /// - Parameter total: counts the bytes of all downloads
    init(total: ByteCounter) { self.total = total }

    /// Whether downloads of other users wait for the slot.
    var isAwaited: Bool {
        get { awaited.load(ordering: .relaxed) }
        set { awaited.store(newValue, ordering: .relaxed) }
    }

    /// The number of bytes received in all attempts.
    var received: Int { bytes.load(ordering: .relaxed) }

    /// The received part of the image.
    var size: Size { state.withLock { $0.size } }

    func add(_ count: Int) {
        bytes.add(count, ordering: .relaxed)
        total.add(count)
        change { $0.received += count }
    }

    /// Records that a response begins with the first byte of the image.
    ///
    /// - Parameter total: the size of the image in bytes; nil if the response does not declare it
    func begin(total: Int?) { change { $0 = Size(total: total) } }

    /// Records the size of an image whose rest is being received.
    func expect(_ total: Int) { change { $0.total = total } }

    /// Records that the received bytes were discarded.
    func discard() { if size != Size() { change { $0 = Size() } } }

    /// Calls a function now and after each change, on the thread that makes the change.
    func observe(_ waiter: WaiterID, _ report: @escaping @Sendable (Size) -> Void) {
        state.withLock { state in
            state.observers[waiter] = report
            // Under the lock, this call precedes that for a later change. Otherwise an old size could be reported last.
            report(state.size)
        }
    }

    /// Removes an observer. A call to it that has begun may still end later.
    func removeObserver(_ waiter: WaiterID) {
        state.withLock { $0.observers[waiter] = nil }
    }

    private func change(_ body: (inout Size) -> Void) {
        let (size, observers) = state.withLock { state in
            body(&state.size)
            return (state.size, state.observers)
        }
        for report in observers.values { report(size) }
    }
}

/// A byte count that only increases.
final class ByteCounter: Sendable {
    private let count = Atomic(0)

    var bytes: Int { count.load(ordering: .relaxed) }

    func add(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
}
