import CLinuxShims
import Glibc

/// The thread that reads the inotify queue; see ``Inotify`` for why there is one.
enum InotifyThread {
    private final class Context: Sendable {
        let inotify: Inotify
        let queue: Int32
        let stop: Int32

        init(_ inotify: Inotify, _ queue: Int32, _ stop: Int32) {
            self.inotify = inotify
            self.queue = queue
            self.stop = stop
        }
    }

    /// Starts the thread, detached: it says itself when it has ended.
    ///
    /// - Parameter stop: a descriptor on which the other end hangs up to end the thread
    /// - Returns: false if there is no thread to be had
    static func start(_ inotify: Inotify, queue: Int32, stop: Int32) -> Bool {
        // Signals belong to the threads that expect them. A new thread inherits the mask of the one that makes it.
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        // But for those that are about the thread itself: of what crashes, and of what a crash report stops it with.
        for own in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGQUIT, SIGPROF] {
            sigdelset(&all, own)
        }
        pthread_sigmask(SIG_SETMASK, &all, &before)
        let context = Unmanaged.passRetained(Context(inotify, queue, stop))
        let isStarted = create(context.toOpaque())
        pthread_sigmask(SIG_SETMASK, &before, nil)
        if !isStarted { context.release() }
        return isStarted
    }

    private static func create(_ context: UnsafeMutableRawPointer) -> Bool {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        pthread_attr_setstacksize(&attributes, 256 << 10)
        var thread = pthread_t()
        let result = pthread_create(&thread, &attributes, { InotifyThread.main($0) }, context)
        pthread_attr_destroy(&attributes)
        return result == 0
    }

    private static func main(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        if let context { run(Unmanaged<Context>.fromOpaque(context).takeRetainedValue()) }
        return nil
    }

    private static func run(_ context: Context) {
        nameThread()
        // Room for 60 events with the longest names, and thousands with usual ones.
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 16 << 10, alignment: 8)
        defer { buffer.deallocate() }
        var polled = [
            pollfd(fd: context.queue, events: Int16(POLLIN), revents: 0),
            pollfd(fd: context.stop, events: Int16(POLLIN), revents: 0),
        ]
        while true {
            // It fails only with EINTR or for want of memory (poll(2)); neither is a reason to stop watching.
            guard poll(&polled, nfds_t(polled.count), -1) > 0 else { continue }
            if polled[1].revents != 0 { break }
            let count = read(context.queue, buffer.baseAddress, buffer.count)
            if count > 0 { context.inotify.handle(UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
        }
        context.inotify.threadEnded(queue: context.queue, stop: context.stop)
    }

    /// For top and gdb. pthread_setname_np(3) is a GNU extension that Swift's Glibc module does not show; proc(5) does the
    /// same, and where it is not mounted nobody looks at names of threads either.
    private static func nameThread() {
        guard let file = fopen("/proc/thread-self/comm", "we") else { return }
        fputs("larder-inotify", file)
        fclose(file)
    }
}
