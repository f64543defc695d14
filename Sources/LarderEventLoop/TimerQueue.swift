import HeapModule
import NIOCore

/// The timers of an event loop, ordered by deadline. Used by one thread at a time.
struct TimerQueue {
    /// An action to run at a deadline, unless it is cancelled first.
    final class Timer {
        let deadline: NIODeadline
        /// Breaks ties: of timers with the same deadline, the one that was added first runs first.
        fileprivate let order: Int
        /// Nil once the action was taken or cancelled.
        fileprivate var action: (() -> Void)?

        fileprivate init(_ deadline: NIODeadline, _ order: Int, _ action: @escaping () -> Void) {
            (self.deadline, self.order, self.action) = (deadline, order, action)
        }
    }

    private struct Entry: Comparable {
        let timer: Timer

        static func < (left: Entry, right: Entry) -> Bool {
            (left.timer.deadline, left.timer.order) < (right.timer.deadline, right.timer.order)
        }
        static func == (left: Entry, right: Entry) -> Bool { left.timer === right.timer }
    }

    /// Cancelled timers are removed from the heap together, when their number exceeds this limit and more than half of
    /// all timers are cancelled.
    private static let maxCancelled = 64

    private var heap = Heap<Entry>()
    private var scheduled = 0
    private var cancelled = 0

    /// The number of timers in the heap, including cancelled ones that have not been removed yet.
    var count: Int { heap.count }

    /// The earliest deadline, possibly of a cancelled timer; nil if there are no timers.
    var next: NIODeadline? { heap.min?.timer.deadline }

    mutating func add(at deadline: NIODeadline, _ action: @escaping () -> Void) -> Timer {
        scheduled += 1
        let timer = Timer(deadline, scheduled, action)
        heap.insert(Entry(timer: timer))
        return timer
    }

    /// Cancels a timer and releases its action. Has no effect on a timer whose action was taken.
    mutating func cancel(_ timer: Timer) {
        guard timer.action != nil else { return }
        timer.action = nil
        cancelled += 1
        // To remove a single entry, the whole heap would have to be searched, so cancelled entries are removed
        // together.
        if cancelled > Self.maxCancelled, cancelled > heap.count / 2 {
            heap = Heap(heap.unordered.filter { $0.timer.action != nil })
            cancelled = 0
        }
    }

    /// Removes and returns the action of the next timer that is due; nil if none is due.
    mutating func takeDue(at now: NIODeadline) -> (() -> Void)? {
        while let first = heap.min?.timer, first.deadline <= now {
            heap.removeMin()
            guard let action = first.action else {
                cancelled -= 1
                continue
            }
            first.action = nil
            return action
        }
        return nil
    }
}
