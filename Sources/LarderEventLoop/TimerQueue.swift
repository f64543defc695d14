import HeapModule
import NIOCore

/// What an event loop has to do later, the next thing first. Used by one thread at a time.
struct TimerQueue {
    /// Something to be done at a time, unless it is cancelled before.
    final class Timer {
        let deadline: NIODeadline
        /// Breaks ties: what was scheduled first comes first.
        fileprivate let order: Int
        /// Nil once it was done or cancelled.
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

    /// Fewer cancelled ones are left where they are.
    private static let maxCancelled = 64

    private var heap = Heap<Entry>()
    private var scheduled = 0
    private var cancelled = 0

    /// How many are kept, with those that were cancelled and are still there.
    var count: Int { heap.count }

    /// When the next one is due; nil for none.
    var next: NIODeadline? { heap.min?.timer.deadline }

    /// Adds a timer.
    mutating func add(at deadline: NIODeadline, _ action: @escaping () -> Void) -> Timer {
        scheduled += 1
        let timer = Timer(deadline, scheduled, action)
        heap.insert(Entry(timer: timer))
        return timer
    }

    /// Cancels a timer. What it holds on to is let go of at once; a timer that was done before is none any more.
    mutating func cancel(_ timer: Timer) {
        guard timer.action != nil else { return }
        timer.action = nil
        cancelled += 1
        // Its place is given back with those of others: to look for it takes as long as to look at all.
        if cancelled > Self.maxCancelled, cancelled > heap.count / 2 {
            heap = Heap(heap.unordered.filter { $0.timer.action != nil })
            cancelled = 0
        }
    }

    /// Takes the next one that is due; nil for none.
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
