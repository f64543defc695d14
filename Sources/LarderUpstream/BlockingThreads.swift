internal import CLinuxShims
internal import DequeModule
internal import Dispatch
internal import Synchronization
import Glibc

/// A few threads for what may wait for a disk.
///
/// NIO's pool wakes all of its threads for each piece of work, of which one finds something to do: a change that waits for
/// the disk took three changes of threads more.
public final class BlockingThreads: Sendable {
    /// What the threads share. They hold it for as long as they run.
    private final class Queue: Sendable {
        struct State {
            var work = Deque<@Sendable () -> Void>()
            var running: Int
            var isStopped: Bool
            var waiter: CheckedContinuation<Void, Never>?
        }

        let state: Mutex<State>
        /// Counts what is waiting in `work`, and beyond the end the threads that are to stop.
        let arrivals = DispatchSemaphore(value: 0)

        init(threads: Int) { state = Mutex(State(running: threads, isStopped: threads == 0)) }

        func run() {
            while true {
                arrivals.wait()
                guard let body = next() else { break }
                body()
            }
            let waiter = state.withLock { state in
                state.running -= 1
                return state.running == 0 ? state.waiter.take() : nil
            }
            waiter?.resume()
        }

        private func next() -> (@Sendable () -> Void)? {
            state.withLock { $0.work.popFirst() }
        }

        func stop() {
            let running = state.withLock { state in
                defer { state.isStopped = true }
                return state.isStopped ? 0 : state.running
            }
            for _ in 0..<running { arrivals.signal() }
        }
    }

    private final class Start {
        let (queue, name): (Queue, String)
        init(_ queue: Queue, name: String) { (self.queue, self.name) = (queue, name) }
    }

    private let queue: Queue

    /// Starts threads, which end with this object.
    /// - Parameter count: how many; 0 for none, so that everything is done by who asks for it.
    public init(count: Int) {
        queue = Queue(threads: count)
        for number in 0..<count { start(number) }
    }

    deinit { queue.stop() }

    private func start(_ number: Int) {
        let start = Unmanaged.passRetained(Start(queue, name: "disk-\(number + 1)"))
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                larder_name_thread(start.name)
                start.queue.run()
                return nil
            }, start.toOpaque())
        // As with memory that the system refuses, there is nothing to go on with.
        guard result == 0 else { fatalError("cannot start a thread: \(String(cString: strerror(result)))") }
        pthread_detach(thread)
    }

    /// Has a thread do something, behind what was asked for before. Once the threads were stopped it is done here and now.
    public func submit(_ body: @escaping @Sendable () -> Void) {
        let isTaken = queue.state.withLock { state in
            if !state.isStopped { state.work.append(body) }
            return !state.isStopped
        }
        if isTaken { queue.arrivals.signal() } else { body() }
    }

    /// Ends the threads once they have done what was asked for.
    public func stop() async {
        queue.stop()
        await withCheckedContinuation { continuation in
            let isOver = queue.state.withLock { state in
                if state.running > 0 { state.waiter = continuation }
                return state.running == 0
            }
            if isOver { continuation.resume() }
        }
    }
}
