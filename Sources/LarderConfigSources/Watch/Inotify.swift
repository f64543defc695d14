import CLinuxShims
import Glibc
package import LarderPlatform
import Synchronization

/// The inotify(7) queue of the process. All watches share it, because by default all programs of a user together can
/// have only 128 inotify instances.
///
/// A separate thread reads the queue. A blocking read must not occupy one of the few threads that run Swift tasks, a
/// dispatch source would add a second event library to the process, and this module does not depend on the event loops
/// of the server. The thread sleeps in poll(2) and only looks up names in a table.
package final class Inotify: Sendable {
    /// Which events of a watched directory raise the signal of a subscriber: all, or only those of entries with certain
    /// names.
    package enum Interest: Sendable {
        case everything
        case names(Set<String>)
    }

    /// The role of a watched path.
    package enum Kind: Sendable {
        /// A directory through which the path leads. It is watched for entries that appear or disappear.
        case passage
        /// A directory whose files are read.
        case directory
        /// A file. Its watch reports writes through another hard link or mount, which the watch of the directory does
        /// not report.
        case file

        fileprivate var mask: Int32 {
            let entries = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO
            let own = IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF
            let contents = IN_MODIFY | IN_CLOSE_WRITE
            // IN_MASK_ADD extends an existing watch instead of replacing its events, because the same directory can
            // have different roles for different subscribers.
            switch self {
            case .passage: return entries | own | IN_ONLYDIR | IN_EXCL_UNLINK | IN_MASK_ADD
            case .directory: return entries | own | contents | IN_ONLYDIR | IN_EXCL_UNLINK | IN_MASK_ADD
            case .file: return own | contents | IN_MASK_ADD
            }
        }
    }

    package enum WatchResult: Equatable {
        case watching(Int32)
        /// The path is not watched, because it does not exist or is unreadable, or because the user has no watches
        /// left. `errno` is 0 if there is no inotify queue.
        case failed(errno: Int32)
    }

    private struct Subscriber {
        let signal: Signal
        var watches: Set<Int32> = []
    }

    private struct State {
        enum Phase {
            case unused
            /// Closing `stopper`, one end of a socket pair, ends the thread.
            case running(queue: Int32, stopper: Int32)
            /// The kernel refused a queue. Changes are only detected by polling.
            case unavailable(errno: Int32)
            case stopping
            case stopped
        }

        var phase = Phase.unused
        var subscribers: [Int: Subscriber] = [:]
        var interests: [Int32: [Int: Interest]] = [:]
        var nextSubscriber = 0
        var stopWaiters: [CheckedContinuation<Void, Never>] = []
    }

    /// The system calls that fail when a user has reached a limit. Tests can replace them. They return -1 and set errno
    /// on failure.
    package struct System: Sendable {
        var makeQueue: @Sendable () -> Int32 = { inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK)) }
        var addWatch: @Sendable (_ queue: Int32, _ path: String, _ mask: UInt32) -> Int32 = {
            inotify_add_watch($0, $1, $2)
        }
    }

    private let system: System
    /// Tasks add and remove watches while the thread of the queue looks up subscribers.
    private let state = Mutex(State())

    init(system: System = System()) { self.system = system }

    /// Tries to create the queue again if the kernel has refused it.
    /// - Returns: the error number of the failed system call; nil if there is now a queue, or if none is needed
    func unavailability() -> Int32? {
        state.withLock { state in
            guard case .unavailable = state.phase else { return nil }
            state.phase = start()
            return if case .unavailable(let number) = state.phase { number } else { nil }
        }
    }

    /// The number of watched objects.
    var watchCount: Int { state.withLock { $0.interests.count } }

    // MARK: Subscribers

    /// Adds a subscriber, whose signal is raised for events of its watches. Starts the thread if it is not running yet.
    package func subscribe(_ signal: Signal) -> Int {
        let (id, isStopped) = state.withLock { state in
            if case .unused = state.phase { state.phase = start() }
            let id = state.nextSubscriber
            state.nextSubscriber += 1
            switch state.phase {
            case .stopping, .stopped: return (id, true)
            default: state.subscribers[id] = Subscriber(signal: signal)
            }
            return (id, false)
        }
        if isStopped { signal.finish() }
        return id
    }

    /// Removes a subscriber, and its watches that no other subscriber uses.
    package func unsubscribe(_ id: Int) {
        state.withLock { state in
            guard let subscriber = state.subscribers.removeValue(forKey: id) else { return }
            for watch in subscriber.watches { Self.drop(watch, for: id, &state) }
        }
    }

    package func watch(_ path: String, as kind: Kind, _ interest: Interest, for id: Int) -> WatchResult {
        state.withLock { state in
            guard case .running(let queue, _) = state.phase, state.subscribers[id] != nil else {
                return .failed(errno: 0)
            }
            let watch = system.addWatch(queue, path, UInt32(kind.mask))
            guard watch >= 0 else { return .failed(errno: errno) }
            let known = state.interests[watch]?[id]
            state.interests[watch, default: [:]][id] = known.map { $0.union(interest) } ?? interest
            state.subscribers[id]?.watches.insert(watch)
            return .watching(watch)
        }
    }

    /// Replaces the interests of a subscriber. Removes the watches that are not in `interests`, unless other
    /// subscribers use them.
    func keepOnly(_ interests: [Int32: Interest], for id: Int) {
        state.withLock { state in
            guard let subscriber = state.subscribers[id] else { return }
            for watch in subscriber.watches where interests[watch] == nil { Self.drop(watch, for: id, &state) }
            state.subscribers[id]?.watches = Set(interests.keys).filter { state.interests[$0] != nil }
            for (watch, interest) in interests where state.interests[watch] != nil {
                state.interests[watch]?[id] = interest
            }
        }
    }

    private static func drop(_ watch: Int32, for id: Int, _ state: inout State) {
        state.interests[watch]?[id] = nil
        guard state.interests[watch]?.isEmpty == true else { return }
        state.interests[watch] = nil
        if case .running(let queue, _) = state.phase { inotify_rm_watch(queue, watch) }
    }

    // MARK: Events

    /// Raises the signal of each subscriber that is interested in one of the events.
    /// - Parameter bytes: the events as returned by read(2)
    func handle(_ bytes: UnsafeRawBufferPointer) {
        var offset = 0
        var event = larder_inotify_event()
        while larder_inotify_next(bytes.baseAddress, bytes.count, &offset, &event) {
            let name = event.name.map { String(cString: $0) }
            for signal in concerned(event.watch, event.mask, name) { signal.raise() }
        }
    }

    private func concerned(_ watch: Int32, _ mask: UInt32, _ name: String?) -> [Signal] {
        state.withLock { state in
            // The queue overflowed. Events of any watch may be lost, so all subscribers are signaled.
            if mask & UInt32(IN_Q_OVERFLOW) != 0 { return state.subscribers.values.map(\.signal) }
            let interests = state.interests[watch] ?? [:]
            // The kernel removed the watch because the watched object was removed or unmounted. The kernel does not
            // reuse the number of the watch.
            if mask & UInt32(IN_IGNORED) != 0 {
                state.interests[watch] = nil
                for id in interests.keys { state.subscribers[id]?.watches.remove(watch) }
            }
            return interests.compactMap { id, interest in
                interest.includes(name) ? state.subscribers[id]?.signal : nil
            }
        }
    }

    // MARK: Life cycle

    private func start() -> State.Phase {
        let queue = system.makeQueue()
        guard queue >= 0 else { return .unavailable(errno: errno) }
        var pair: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &pair) == 0 else {
            let number = errno
            close(queue)
            return .unavailable(errno: number)
        }
        guard InotifyThread.start(self, queue: queue, stop: pair[1]) else {
            for descriptor in [queue] + pair { close(descriptor) }
            return .unavailable(errno: EAGAIN)
        }
        return .running(queue: queue, stopper: pair[0])
    }

    /// Ends all subscriptions. The thread ends soon after.
    func requestStop() {
        let signals = state.withLock { state in
            let signals = state.subscribers.values.map(\.signal)
            state.subscribers = [:]
            state.interests = [:]
            switch state.phase {
            case .running(_, let stopper):
                close(stopper)
                state.phase = .stopping
            case .unused, .unavailable: state.phase = .stopped
            case .stopping, .stopped: break
            }
            return signals
        }
        for signal in signals { signal.finish() }
    }

    /// Ends all subscriptions. Returns when the thread has ended.
    package func stop() async {
        requestStop()
        await withCheckedContinuation { continuation in
            let hasEnded = state.withLock { state in
                if case .stopped = state.phase { return true }
                state.stopWaiters.append(continuation)
                return false
            }
            if hasEnded { continuation.resume() }
        }
    }

    /// Called when the thread has ended. The queue is closed here and not earlier, because its descriptor could
    /// otherwise be reused while a watch is being added.
    func threadEnded(queue: Int32, stop: Int32) {
        let waiters = state.withLock { state in
            close(queue)
            close(stop)
            state.phase = .stopped
            defer { state.stopWaiters = [] }
            return state.stopWaiters
        }
        for waiter in waiters { waiter.resume() }
    }
}

extension Inotify.Interest {
    /// Whether the interest includes an event for the entry `name`. An event without a name concerns the watched object
    /// itself and is always included.
    package func includes(_ name: String?) -> Bool {
        switch self {
        case .everything: true
        case .names(let names): name.map { names.contains($0) } ?? true
        }
    }

    package func union(_ other: Self) -> Self {
        guard case .names(let left) = self, case .names(let right) = other else { return .everything }
        return .names(left.union(right))
    }
}

/// The thread that reads the inotify queue. ``Inotify`` explains why it is a separate thread.
enum InotifyThread {
    /// Starts the detached thread. It calls ``Inotify/threadEnded(queue:stop:)`` at its end.
    ///
    /// - Parameter stop: one end of a socket pair; the thread ends when the other end is closed
    /// - Returns: false if the thread cannot be created
    static func start(_ inotify: Inotify, queue: Int32, stop: Int32) -> Bool {
        // The signals are blocked before the thread is created, because the thread inherits the signal mask and must
        // not receive signals that other threads handle.
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        // Crash signals stay unblocked, and so do those that crash reporters and profilers send to the thread.
        for own in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGQUIT, SIGPROF] {
            sigdelset(&all, own)
        }
        pthread_sigmask(SIG_SETMASK, &all, &before)
        let failure = startThread("larder-inotify", stackBytes: 256 << 10) { run(inotify, queue: queue, stop: stop) }
        pthread_sigmask(SIG_SETMASK, &before, nil)
        return failure == 0
    }

    private static func run(_ inotify: Inotify, queue: Int32, stop: Int32) {
        // Room for 60 events with names of maximum length, or many more with typical names.
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 16 << 10, alignment: 8)
        defer { buffer.deallocate() }
        var polled = [
            pollfd(fd: queue, events: Int16(POLLIN), revents: 0),
            pollfd(fd: stop, events: Int16(POLLIN), revents: 0),
        ]
        while true {
            // Fails only with EINTR or ENOMEM (poll(2)). Both are retried.
            guard poll(&polled, nfds_t(polled.count), -1) > 0 else { continue }
            if polled[1].revents != 0 { break }
            let count = read(queue, buffer.baseAddress, buffer.count)
            if count > 0 { inotify.handle(UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
        }
        inotify.threadEnded(queue: queue, stop: stop)
    }
}
