import Glibc
import LarderPlatform
package import Logging

/// Signals when files may have changed and should be read again.
///
/// The file at a path can change through any directory of the path: an editor renames a new file over the old one,
/// Kubernetes replaces the symbolic link `..data` two links away, or a file system is mounted. The watcher therefore
/// watches every directory along the path, including those behind symbolic links, and resolves the path again after
/// each event. A slow poll detects changes that inotify(7) does not report, such as writes by another host on a network
/// file system.
///
/// One watcher serves the process. Its thread starts on first use and ends with ``stop()`` or when the watcher is
/// released.
package final class FileWatcher: Sendable {
    /// The delays and intervals of the stream of ``changes(at:)``.
    enum Timing {
        /// The time without events after which a burst has ended.
        static let settle = Duration.milliseconds(20)
        /// The maximum duration of a burst, as a multiple of `settle`.
        static let maxBurst = 10
        /// The time between two elements of the stream while inotify reports nothing.
        static let poll = Duration.seconds(30)
        /// The time between two elements while the kernel refuses watches. The watches are requested again each time.
        static let retry = Duration.seconds(5)
    }

    /// The files at a path may have changed.
    package struct Change: Sendable {
        /// Why the path is not watched, or only in part, with a hint; nil if it is watched.
        package let watchProblem: String?
    }

    private let inotify: Inotify
    private let clock: any Clock<Duration>
    private let logger: Logger?

    /// Makes a watcher. Starts no thread.
    ///
    /// - Parameters:
    ///   - clock: measures the delays and intervals
    ///   - logger: logs when the kernel refuses watches
    package convenience init(clock: any Clock<Duration> = ContinuousClock(), logger: Logger? = nil) {
        self.init(clock: clock, logger: logger, system: Inotify.System())
    }

    init(clock: any Clock<Duration>, logger: Logger?, system: Inotify.System) {
        inotify = Inotify(system: system)
        self.clock = clock
        self.logger = logger
    }

    deinit { inotify.requestStop() }

    /// Watches a file, or a directory with its files. The path need not exist yet.
    ///
    /// Each element means that the files should be read. The first element arrives once the watches are set, so a
    /// consumer that reads after each element misses no change. Pending elements are coalesced into the newest. The
    /// stream ends when the watcher stops.
    ///
    /// While the kernel refuses watches, an element arrives every ``Timing/retry``.
    ///
    /// - Parameter path: the path; a relative path is resolved against the current directory at the time of the call
    package func changes(at path: String) -> AsyncStream<Change> {
        let (stream, continuation) = AsyncStream.makeStream(of: Change.self, bufferingPolicy: .bufferingNewest(1))
        let follower = PathFollower(
            path: absolutePath(path), inotify: inotify, clock: clock, logger: logger, output: continuation)
        let task = Task { await follower.run() }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }

    /// Ends all streams. Returns when the thread has ended. Can be called more than once.
    package func stop() async { await inotify.stop() }

    /// For tests: handles these events as if the thread had read them from the kernel.
    func handleEvents(_ bytes: UnsafeRawBufferPointer) { inotify.handle(bytes) }
}
