import CLinuxShims
import DequeModule
public import Dispatch
import Glibc
public import NIOCore
import Synchronization

/// An epoll(7) event loop: one thread that runs socket events, timers and work submitted by other threads.
///
/// Connections read and write their sockets directly, with one system call each. SwiftNIO channels took 4,000 of the
/// 6,300 instructions of a small request, and 110,000 of the 120,000 of a new connection. For tasks, timers and actors
/// this is an ordinary NIO event loop.
///
/// Timers count the time during which the system is suspended (`CLOCK_BOOTTIME`): a timer that is due after a suspension
/// fires at its end. Deadlines must therefore be computed from ``now``, not from `NIODeadline.now()`.
///
/// A loop runs until ``stop()`` is called or the process exits.
public final class EpollLoop: NIOSerialEventLoopExecutor {
    /// Work submitted to the loop, by any thread.
    private enum Work: Sendable {
        case task(@Sendable () -> Void)
        case job(UnownedJob)
        /// A step of a task that prefers this loop but is not isolated to it.
        case step(UnownedJob, of: LoopTaskExecutor)
    }

    /// The life of a loop. A loop never returns to an earlier phase.
    private enum Phase {
        case running
        /// ``stop()`` was called. The loop still runs all work, also work that is submitted now.
        case stopping
        /// No work is left. The thread has ended or is about to end, so that work submitted now would never run.
        case stopped
    }

    private struct Inbox {
        var work = Deque<Work>()
        /// Whether the thread will check the inbox before it waits for events again. If so, a submitter need not wake
        /// the thread.
        var isAwake = true
        var phase = Phase.running
    }

    /// State that only the loop's thread uses.
    private struct Own {
        let epoll: Epoll
        var timers = TimerQueue()
        /// The deadline for which the timerfd is set; nil if it was never set.
        var armed: NIODeadline?
        /// Work taken from the inbox. Work beyond the time slice stays here until the next iteration.
        var work = Deque<Work>()
        var isRunningTask = false
        /// The number of loop iterations so far.
        var iterationNumber = 0
        /// Targets whose ``EpollTarget/resume()`` is called once the other targets of this iteration have received
        /// their events.
        var yielded: [EpollTarget] = []
        /// Work for the end of an iteration, after its socket events.
        var deferred = Deque<() -> Void>()

        init() throws(EpollError) { epoll = try Epoll() }
    }

    /// The maximum number of times that one iteration takes work from the inbox before it waits for socket events.
    private static let maxInboxPasses = 8
    /// The time after which an iteration takes no more work from the inbox. The deferred work of an iteration has a
    /// separate limit of the same length.
    private static let timeSlice = TimeAmount.microseconds(50)

    /// Any thread submits work.
    private let inbox = Mutex(Inbox())
    private let thread = Atomic<UInt>(0)
    /// A longer wait uses the timerfd, because the time limit of epoll_wait(2) does not count the time of a suspension.
    /// After a suspension, a timer may be late by this time.
    private static let longWait = TimeAmount.seconds(1)

    /// The eventfd(2) that wakes the thread.
    private let wakeupFD: CInt
    /// The timerfd_create(2) that ends long waits.
    private let timerFD: CInt
    // Used only by the loop's thread. Before that thread runs, the thread that creates the loop uses this state. The
    // compiler cannot check this, because the thread is known only at run time. A release build does not check for
    // overlapping accesses either, which would add 400 instructions to each iteration. That check is not needed: no
    // submitted work is called while a part of this state changes.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private nonisolated(unsafe) var own: Own

    /// Creates a loop and starts its thread.
    /// - Parameter name: the thread name that top(1) shows, up to 15 bytes
    /// - Throws: an error if the kernel cannot create a thread or descriptor
    public init(name: String) throws(EpollError) {
        own = try Own()
        wakeupFD = larder_eventfd()
        timerFD = larder_timerfd()
        guard wakeupFD >= 0, timerFD >= 0 else {
            throw EpollError(description: "cannot create an event loop: \(String(cString: strerror(errno)))")
        }
        // Edge-triggered: each write causes an event, although the counter of the eventfd is never read.
        try own.epoll.add(wakeupFD, [.readable, .onEdges], EpollTarget())
        // Also edge-triggered: each expiry causes an event, although the timerfd is never read.
        try own.epoll.add(timerFD, [.readable, .onEdges], EpollTarget())
        let body = Unmanaged.passRetained(self)
        let failure = larder_start_thread(
            name, 0,
            { argument in
                guard let argument else { return nil }
                Unmanaged<EpollLoop>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, body.toOpaque())
        guard failure == 0 else {
            body.release()
            throw EpollError(description: "cannot start a thread: \(String(cString: strerror(failure)))")
        }
    }

    deinit {
        Glibc.close(wakeupFD)
        Glibc.close(timerFD)
    }

    /// The set of watched descriptors. Used on the loop only.
    package var epoll: Epoll {
        preconditionInEventLoop()
        return own.epoll
    }

    /// Identifies the current loop iteration. Used on the loop only.
    package var iterationNumber: Int { own.iterationNumber }

    /// Whether the calling thread is the loop's thread and runs a step of a task that prefers the loop. No connection
    /// is then being served further up the call stack.
    package var isRunningTask: Bool { inEventLoop && own.isRunningTask }

    // MARK: The thread

    private func run() {
        thread.store(Self.currentThread, ordering: .releasing)
        while takeWork() {
            runInbox()
            runTimers()
            own.iterationNumber &+= 1
            own.epoll.wait(atMost: pollTimeout())
            while let target = own.yielded.popLast() { target.resume() }
            runDeferred()
        }
    }

    /// Runs work from the inbox, including the work that this work submits, up to the limits ``timeSlice`` and
    /// ``maxInboxPasses``.
    private func runInbox() {
        if own.work.isEmpty { return }
        let end = NIODeadline.now() + Self.timeSlice
        var passes = 0
        repeat {
            while let piece = own.work.popFirst() {
                perform(piece)
                if !own.work.isEmpty, NIODeadline.now() >= end { return }
            }
            passes += 1
        } while passes < Self.maxInboxPasses && NIODeadline.now() < end && takeMore()
    }

    private func perform(_ work: Work) {
        switch work {
        case .task(let task): task()
        case .job(let job): job.runSynchronously(on: asUnownedSerialExecutor())
        case .step(let job, let executor):
            own.isRunningTask = true
            job.runSynchronously(on: executor.asUnownedTaskExecutor())
            own.isRunningTask = false
        }
    }

    /// Takes the contents of the inbox if all work taken earlier has run.
    /// - Returns: false if the loop has stopped
    private func takeWork() -> Bool {
        inbox.withLock { inbox in
            inbox.isAwake = true
            if own.work.isEmpty { swap(&inbox.work, &own.work) }
            if inbox.phase == .stopping, own.work.isEmpty { inbox.phase = .stopped }
            return inbox.phase != .stopped
        }
    }

    /// Takes the contents of the inbox. Returns false if it is empty.
    private func takeMore() -> Bool {
        inbox.withLock { inbox in
            if inbox.work.isEmpty { return false }
            swap(&inbox.work, &own.work)
            return true
        }
    }

    /// How long the thread may wait for events if it is not woken, in milliseconds; -1 for no limit.
    @inline(__always)
    private func pollTimeout() -> CInt {
        let isBusy = !own.work.isEmpty || !own.deferred.isEmpty
        let mustLook = inbox.withLock { inbox in
            inbox.isAwake = isBusy || !inbox.work.isEmpty || inbox.phase != .running
            return inbox.isAwake
        }
        if mustLook { return 0 }
        guard let next = own.timers.next else { return -1 }
        let now = now
        let wait = next - now
        if wait.nanoseconds <= 0 { return 0 }
        if wait > Self.longWait, arm(for: next, now) { return -1 }
        // Rounded up so that the timer is due when the wait ends. Limited to an hour to fit into `CInt`.
        return CInt(min((wait.nanoseconds - 1) / 1_000_000 + 1, 3_600_000))
    }

    /// Sets the timerfd, unless it is set for an earlier time in the future, at which the loop sets it again.
    /// - Returns: false if it cannot be set
    private func arm(for deadline: NIODeadline, _ now: NIODeadline) -> Bool {
        if let armed = own.armed, armed > now, armed <= deadline { return true }
        guard larder_timerfd_set(timerFD, Int64(clamping: deadline.uptimeNanoseconds)) == 0 else { return false }
        own.armed = deadline
        return true
    }

    private func runTimers() {
        guard own.timers.next != nil else { return }
        let now = now
        while let action = own.timers.takeDue(at: now) { action() }
    }

    @inline(__always)
    private func runDeferred() {
        // This call runs only work that is already deferred. Work that is deferred while it runs waits for the next
        // iteration.
        var count = own.deferred.count
        if count == 0 { return }
        let end = NIODeadline.now() + Self.timeSlice
        repeat {
            own.deferred.removeFirst()()
            count -= 1
        } while count > 0 && NIODeadline.now() < end
    }

    /// Runs `piece` on the loop after all ready sockets have been served. Bulk work is deferred in pieces, so that
    /// clients with small requests are served in between. Called on the loop.
    package func deferWork(_ piece: @escaping () -> Void) {
        preconditionInEventLoop()
        own.deferred.append(piece)
    }

    /// Calls ``EpollTarget/resume()`` of `target` once all targets of this iteration have received their events.
    /// Called from ``EpollTarget/ready(_:)``.
    package func resumeAfterOthers(_ target: EpollTarget) { own.yielded.append(target) }

    private static var currentThread: UInt { UInt(pthread_self()) }

    @inline(__always)
    private func addToInbox(_ piece: Work) {
        let mustWake = inbox.withLock { inbox in
            if inbox.phase == .stopped {
                fatalError("an event loop has stopped and cannot run more work; stop its users before it")
            }
            inbox.work.append(piece)
            defer { inbox.isAwake = true }
            return !inbox.isAwake
        }
        // The loop's own thread need not be woken, because it checks the inbox before it waits.
        if mustWake, !inEventLoop { wake() }
    }

    private func wake() {
        var one: UInt64 = 1
        // The write fails only if the counter of the eventfd would exceed its maximum of 2^64 - 2. Increments of 1
        // never reach that number in practice.
        _ = write(wakeupFD, &one, MemoryLayout<UInt64>.size)
    }

    /// Ends the thread once it has run all submitted work. Deferred work and timers may be dropped. Work that is
    /// submitted after the end of the thread is a fatal error, because it would never run.
    public func stop() {
        inbox.withLock { if $0.phase == .running { $0.phase = .stopping } }
        wake()
    }

    // MARK: EventLoop

    /// The time since the system started, including suspensions (`CLOCK_BOOTTIME`). The timers of the loop use it.
    public var now: NIODeadline {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return .uptimeNanoseconds(UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    public var inEventLoop: Bool { thread.load(ordering: .relaxed) == Self.currentThread }

    /// Runs `task` on the loop, after work that was submitted earlier.
    public func execute(_ task: @escaping @Sendable () -> Void) { addToInbox(.task(task)) }

    /// Runs a step of a task on the loop, after work that was submitted earlier.
    public func enqueue(_ job: consuming ExecutorJob) { addToInbox(.job(UnownedJob(job))) }

    /// Runs a step of a task that prefers the loop, after work that was submitted earlier.
    func enqueue(_ job: consuming ExecutorJob, of executor: LoopTaskExecutor) {
        addToInbox(.step(UnownedJob(job), of: executor))
    }

    /// Runs `task` on the loop. The future completes with the result or error of `task`.
    public func submit<T>(_ task: @escaping @Sendable () throws -> T) -> EventLoopFuture<T> {
        let promise = makePromise(of: T.self)
        execute { promise.assumeIsolated().completeWith(Result(catching: task)) }
        return promise.futureResult
    }

    /// Runs `task` on the loop at `deadline`, unless it is cancelled first.
    public func scheduleTask<T>(deadline: NIODeadline, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        let promise = makePromise(of: T.self)
        let timer = PendingTimer(self)
        run {
            timer.start(at: deadline) { promise.assumeIsolated().completeWith(Result(catching: task)) }
        }
        return Scheduled(promise: promise) { self.run { timer.cancel() } }
    }

    /// Runs `task` on the loop after `time`, unless it is cancelled first.
    public func scheduleTask<T>(in time: TimeAmount, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        scheduleTask(deadline: now + time, task)
    }

    /// Runs `action` on the loop: immediately if this is its thread, otherwise after work that was submitted earlier.
    private func run(_ action: @escaping @Sendable () -> Void) {
        if inEventLoop { action() } else { execute(action) }
    }

    /// A timer that any thread may hold; it is started and cancelled on the loop.
    private final class PendingTimer: Sendable {
        private let loop: EpollLoop
        // Accessed on the loop only, which the compiler cannot check.
        private nonisolated(unsafe) var timer: TimerQueue.Timer?

        init(_ loop: EpollLoop) { self.loop = loop }

        func start(at deadline: NIODeadline, _ action: @escaping () -> Void) {
            timer = loop.own.timers.add(at: deadline, action)
        }

        func cancel() {
            if let timer { loop.own.timers.cancel(timer) }
            timer = nil
        }
    }

    /// Ends the thread as ``stop()`` does. `callback` is called on `queue`, possibly before the thread has ended.
    public func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {
        stop()
        queue.async { callback(nil) }
    }
}

/// Runs tasks that prefer a loop on the loop's thread, including their steps on actors without an executor of their own
/// (SE-0417). So a short task needs no thread switches. A step is the part of a task between two suspensions. It blocks
/// the loop while it runs.
package final class LoopTaskExecutor: TaskExecutor {
    private let loop: EpollLoop
    private let runsInPlace: (@Sendable () -> Bool)?

    /// - Parameter runsInPlace: returns whether a step runs immediately, within the step of another task that made it
    ///   ready. Otherwise the step runs after work that was submitted earlier. Nil if no step runs immediately. Called
    ///   on the loop, but never while a connection is being served further up the call stack
    package init(_ loop: EpollLoop, runsInPlace: (@Sendable () -> Bool)? = nil) {
        self.loop = loop
        self.runsInPlace = runsInPlace
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        if let runsInPlace, loop.isRunningTask, runsInPlace() {
            UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
        } else {
            loop.enqueue(job, of: self)
        }
    }
}
