import CLinuxShims
import DequeModule
public import Dispatch
public import NIOCore
import Synchronization
import Glibc

/// An event loop of the system's: one thread that waits for sockets (epoll(7)), for timers, and for what other threads hand
/// to it, and does one after the other.
///
/// Clients' sockets are read and written by their sessions themselves, with one system call each. NIO's channels, whose
/// pipelines, promises and buffers serve every kind of transport, took 4,000 of the 6,300 instructions of a small request,
/// and 110,000 of the 120,000 of a new connection. For everything else a loop is NIO's: tasks, timers and actors use it like
/// any other.
///
/// A loop runs as long as its process, or until ``stop()``.
public final class EpollLoop: NIOSerialEventLoopExecutor {
    /// Something that another thread, or this one, hands to the loop.
    private enum Work: Sendable {
        case task(@Sendable () -> Void)
        case job(UnownedJob)
        /// A step of a task that prefers this loop, and is not isolated to it.
        case step(UnownedJob, of: LoopTaskExecutor)
    }

    private struct Inbox {
        var work = Deque<Work>()
        /// Whether the thread looks at the inbox before it waits again.
        var isAwake = true
        var isStopped = false
    }

    /// What belongs to the loop's thread.
    private struct Own {
        let epoll: Epoll
        var timers = TimerQueue()
        /// What was taken from the inbox; what took too long of it waits for the next turn.
        var work = Deque<Work>()
        var isRunningTask = false
        /// How often sockets were waited for.
        var round = 0
        /// Who waits until the other sockets of a turn were served.
        var yielded: [EpollTarget] = []
        /// Work for the end of an iteration, after its sockets were served.
        var deferred = Deque<() -> Void>()

        init() throws(EpollError) { epoll = try Epoll() }
    }

    /// How often the inbox is looked at before the sockets are.
    private static let maxInboxPasses = 8
    /// How long an iteration takes further work from the inbox, and how long it then starts deferred work.
    private static let timeSlice = TimeAmount.microseconds(50)

    private let inbox = Mutex(Inbox())
    private let thread = Atomic<UInt>(0)
    /// Wakes the thread (eventfd(2)).
    private let wakeupFD: CInt
    // Only the thread of the loop uses it, and before that thread runs, the thread that creates the loop. The compiler cannot
    // check this, because the thread is known only at run time. A release build does not check accesses either, which would
    // add 400 instructions to each iteration. No work is called while a part changes.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private nonisolated(unsafe) var own: Own

    /// Starts a loop.
    /// - Parameter name: the thread's, up to 15 bytes, as top(1) shows it.
    /// - Throws: `cannotStart` where there is no room for descriptors or a thread.
    public init(name: String) throws(EpollError) {
        own = try Own()
        wakeupFD = larder_eventfd()
        guard wakeupFD >= 0 else {
            throw EpollError(.cannotStart, "cannot make an event loop: \(String(cString: strerror(errno)))")
        }
        // On edges, each write to it is told, so that it need not be read.
        try own.epoll.add(wakeupFD, [.readable, .onEdges], EpollTarget())
        var thread = pthread_t()
        let body = Unmanaged.passRetained(Start(loop: self, name: name))
        let result = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                larder_name_thread(start.name)
                start.loop.run()
                return nil
            }, body.toOpaque())
        guard result == 0 else {
            body.release()
            throw EpollError(.cannotStart, "cannot start a thread: \(String(cString: strerror(result)))")
        }
        pthread_detach(thread)
    }

    deinit { Glibc.close(wakeupFD) }

    private final class Start {
        let (loop, name): (EpollLoop, String)
        init(loop: EpollLoop, name: String) { (self.loop, self.name) = (loop, name) }
    }

    /// The set of descriptors that it waits for. Used on the loop only.
    package var epoll: Epoll {
        preconditionInEventLoop()
        return own.epoll
    }

    /// Tells the times apart that sockets were waited for. Used on the loop only.
    package var round: Int { own.round }

    /// Whether the calling thread is the loop's and runs a task that prefers the loop, so that no connection is being served
    /// further up the stack.
    package var isRunningTask: Bool { inEventLoop && own.isRunningTask }

    // MARK: The thread

    private func run() {
        thread.store(Self.currentThread, ordering: .releasing)
        while takeWork() {
            runInbox()
            runTimers()
            own.round &+= 1
            own.epoll.wait(atMost: pollTimeout())
            if !own.yielded.isEmpty { resumeYielded() }
            runDeferred()
        }
    }

    /// What one piece hands over is mostly done before the sockets are looked at again; not for ever, though.
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

    /// Takes what is in the inbox, once what was taken before is done.
    /// - Returns: false where the loop was stopped and nothing is left to do.
    private func takeWork() -> Bool {
        inbox.withLock { inbox in
            inbox.isAwake = true
            if own.work.isEmpty { swap(&inbox.work, &own.work) }
            return !inbox.isStopped || !own.work.isEmpty
        }
    }

    /// Takes what is in the inbox, if there is something in it.
    private func takeMore() -> Bool {
        inbox.withLock { inbox in
            if inbox.work.isEmpty { return false }
            swap(&inbox.work, &own.work)
            return true
        }
    }

    /// How long there is nothing to do unless somebody wakes the thread, in milliseconds.
    private func pollTimeout() -> CInt {
        let isBusy = !own.work.isEmpty || !own.deferred.isEmpty
        let mustLook = inbox.withLock { inbox in
            inbox.isAwake = isBusy || !inbox.work.isEmpty || inbox.isStopped
            return inbox.isAwake
        }
        if mustLook { return 0 }
        guard let next = own.timers.next else { return -1 }
        let wait = (next - .now()).nanoseconds
        // Not too early, and not for longer than the system call can say.
        return wait <= 0 ? 0 : CInt(min((wait + 999_999) / 1_000_000, 3_600_000))
    }

    private func runTimers() {
        guard own.timers.next != nil else { return }
        let now = NIODeadline.now()
        while let action = own.timers.takeDue(at: now) { action() }
    }

    private func resumeYielded() {
        while let target = own.yielded.popLast() { target.resume() }
    }

    private func runDeferred() {
        // Work that these pieces defer waits for the next iteration.
        var count = own.deferred.count
        if count == 0 { return }
        let end = NIODeadline.now() + Self.timeSlice
        repeat {
            own.deferred.removeFirst()()
            count -= 1
        } while count > 0 && NIODeadline.now() < end
    }

    /// Runs `piece` on the loop once all sockets with events were served. Called on the loop. What one client requests in
    /// bulk is cut into such pieces, and clients that request little are served between them.
    package func deferWork(_ piece: @escaping () -> Void) {
        preconditionInEventLoop()
        own.deferred.append(piece)
    }

    /// Who was told of a socket goes on once those were served of which the loop was told together with it.
    package func resumeAfterOthers(_ target: EpollTarget) { own.yielded.append(target) }

    private static var currentThread: UInt { UInt(pthread_self()) }

    private func addToInbox(_ piece: Work) {
        let mustWake = inbox.withLock { inbox in
            inbox.work.append(piece)
            defer { inbox.isAwake = true }
            return !inbox.isAwake
        }
        // The thread itself looks at the inbox before it waits.
        if mustWake, !inEventLoop { wake() }
    }

    private func wake() {
        var one: UInt64 = 1
        // It fails only when so many are not taken yet that the thread is awake.
        _ = write(wakeupFD, &one, MemoryLayout<UInt64>.size)
    }

    /// Ends the thread once it has done what was handed to it before.
    public func stop() {
        inbox.withLock { $0.isStopped = true }
        wake()
    }

    // MARK: EventLoop

    /// Whether the calling thread is the loop's.
    public var inEventLoop: Bool { thread.load(ordering: .relaxed) == Self.currentThread }

    /// Has something done on the loop, behind what was handed to it before.
    public func execute(_ task: @escaping @Sendable () -> Void) { addToInbox(.task(task)) }

    /// Runs a step of a task on the loop, behind what was handed to it before.
    public func enqueue(_ job: consuming ExecutorJob) { addToInbox(.job(UnownedJob(job))) }

    /// Runs a step of a task that prefers the loop, behind what was handed to it before.
    func enqueue(_ job: consuming ExecutorJob, of executor: LoopTaskExecutor) {
        addToInbox(.step(UnownedJob(job), of: executor))
    }

    /// Has something done on the loop, and tells what came out.
    public func submit<T>(_ task: @escaping @Sendable () throws -> T) -> EventLoopFuture<T> {
        let promise = makePromise(of: T.self)
        execute { promise.assumeIsolated().completeWith(Result(catching: task)) }
        return promise.futureResult
    }

    /// Has something done on the loop at a time, unless it is cancelled before.
    public func scheduleTask<T>(deadline: NIODeadline, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        let promise = makePromise(of: T.self)
        let timer = PendingTimer(self)
        run {
            timer.start(at: deadline) { promise.assumeIsolated().completeWith(Result(catching: task)) }
        }
        return Scheduled(promise: promise) { self.run { timer.cancel() } }
    }

    /// Has something done on the loop after a time, unless it is cancelled before.
    public func scheduleTask<T>(in time: TimeAmount, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        scheduleTask(deadline: now + time, task)
    }

    /// Does something on the loop: here and now where this is its thread.
    private func run(_ action: @escaping @Sendable () -> Void) {
        if inEventLoop { action() } else { execute(action) }
    }

    /// A timer that is started and cancelled on the loop, from wherever that is asked for.
    private final class PendingTimer: Sendable {
        private let loop: EpollLoop
        // Touched on the loop only, which the compiler cannot see.
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

    /// Ends the thread as ``stop()`` does.
    public func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {
        stop()
        queue.async { callback(nil) }
    }
}
