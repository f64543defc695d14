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
    private let image = Mutex(Size())
    private let observers = Mutex<[WaiterID: @Sendable (Size) -> Void]>([:])
    /// Whether there are observers. Without any, a change does not lock ``observers``.
    private let isObserved = Atomic(false)

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
    var size: Size { image.withLock { $0 } }

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
        observers.withLock { observers in
            observers[waiter] = report
            isObserved.store(true, ordering: .relaxed)
            // Under the lock, this call precedes that for a later change. Otherwise an old size could be reported last.
            report(size)
        }
    }

    /// Removes an observer. A call to it that has begun may still end later.
    func removeObserver(_ waiter: WaiterID) {
        observers.withLock { observers in
            observers[waiter] = nil
            isObserved.store(!observers.isEmpty, ordering: .relaxed)
        }
    }

    private func change(_ body: (inout Size) -> Void) {
        let size = image.withLock { image in
            body(&image)
            return image
        }
        guard isObserved.load(ordering: .relaxed) else { return }
        for report in observers.withLock({ Array($0.values) }) { report(size) }
    }
}

/// A byte count that only increases.
final class ByteCounter: Sendable {
    private let count = Atomic(0)

    var bytes: Int { count.load(ordering: .relaxed) }

    func add(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
}
