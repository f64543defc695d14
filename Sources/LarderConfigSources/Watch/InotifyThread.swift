import Glibc
import LarderPlatform

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
