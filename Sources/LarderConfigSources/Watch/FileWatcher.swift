import CLinuxShims
import Glibc
package import Logging
import Synchronization

/// Tells when files may have changed: "read again", never what happened.
///
/// What a path stands for can change in more places than at its end: an editor renames a new file over the old one,
/// Kubernetes exchanges the symbolic link `..data` two links away, a mount or a whole directory appears. So every
/// directory on the way is watched, behind every link, and the way is gone anew after each event. A slow poll stands
/// behind it for what inotify(7) cannot see, such as writes by another host on a network file system.
///
/// One watcher serves the process. Its thread is started by the first use and ends with ``stop()`` or with the watcher.
package final class FileWatcher: Sendable {
    /// How long to wait, and for what.
    package struct Timing: Sendable, Hashable {
        /// The time without events after which a burst is over.
        package var settle: Duration
        /// How many times `settle` is waited at most, when events do not cease.
        package var longestBurst: Int
        /// The time between two elements when nothing happens.
        package var poll: Duration
        /// The same while the kernel grants too few watches; after it they are requested again.
        package var retry: Duration

        package init(
            settle: Duration = .milliseconds(20), longestBurst: Int = 10, poll: Duration = .seconds(30),
            retry: Duration = .seconds(5)
        ) {
            self.settle = settle
            self.longestBurst = longestBurst
            self.poll = poll
            self.retry = retry
        }
    }

    /// Why a path is not watched, or not completely. It is up to date when an element of the stream arrives.
    package final class Problem: Sendable {
        private let text = Mutex<String?>(nil)

        package init() {}

        /// What is wrong and what to do; nil if all is well.
        public internal(set) var message: String? {
            get { text.withLock { $0 } }
            set { text.withLock { $0 = newValue } }
        }
    }

    private let inotify: Inotify
    private let clock: any Clock<Duration>
    private let timing: Timing
    private let logger: Logger?

    /// Makes a watcher. Nothing is started.
    ///
    /// - Parameters:
    ///   - clock: measures the settling and the polling
    ///   - timing: how long to wait
    ///   - logger: hears when the kernel refuses to watch
    package convenience init(
        clock: any Clock<Duration> = ContinuousClock(), timing: Timing = Timing(), logger: Logger? = nil
    ) {
        self.init(clock: clock, timing: timing, logger: logger, system: Inotify.System())
    }

    package init(clock: any Clock<Duration>, timing: Timing = Timing(), logger: Logger? = nil, system: Inotify.System) {
        inotify = Inotify(system: system)
        self.clock = clock
        self.timing = timing
        self.logger = logger
    }

    deinit { inotify.requestStop() }

    /// Follows a file or a directory with its files, whether it exists already or not.
    ///
    /// Each element means "read now". The first comes at once, as soon as the watches are set: who reads after each
    /// element misses nothing, not even what happens between the first reading and the next line. Elements that are not
    /// fetched in time become one. The stream ends when the watcher stops.
    ///
    /// If the kernel grants no watches, elements come every ``Timing/retry`` until it does again.
    ///
    /// - Parameters:
    ///   - path: where it is; a relative path starts from the current directory as it is now
    ///   - problem: gets what is wrong
    package func changes(at path: String, reporting problem: Problem = Problem()) -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let follower = PathFollower(
            path: Self.absolute(path), inotify: inotify, clock: clock, timing: timing, logger: logger,
            problem: problem, output: continuation)
        let task = Task { await follower.run() }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }

    /// Ends all streams, and returns when the thread has ended. Safe to call more than once.
    package func stop() async { await inotify.stop() }

    /// For tests: what the thread does with the bytes of the queue.
    func handleEvents(_ bytes: UnsafeRawBufferPointer) { inotify.handle(bytes) }

    private static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let directory = getcwd(nil, 0) else { return path }
        defer { free(directory) }
        return String(cString: directory) + "/" + path
    }
}
