import Glibc
import Synchronization

/// The new file until its checks and the command after it have succeeded: a failure, and every signal that ends this
/// process, puts back what was there before. The command that runs is sent the signal, too.
///
/// A signal handler does all of this itself, with calls that it may make (signal-safety(7)). There is one candidate at a
/// time, because there is one set of handlers.
enum Candidate {
    /// The result of an undo.
    enum Outcome: Equatable {
        /// It was not in place; it is deleted.
        case discarded
        /// The previous file is in place again.
        case restored
        /// It is deleted, and there was no previous file.
        case removed
        /// Another process replaced the output; its file stays.
        case superseded
        /// The previous file could not be put back; it is at this path, and the number says why.
        case stranded(String, CInt)
    }

    // Memory that is there when a signal comes. Unchecked, because a signal handler may take no lock: it is written only
    // while `isThere` is false, and read by the handler only while that is true.
    nonisolated(unsafe) private static let temporary = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    nonisolated(unsafe) private static let previous = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    nonisolated(unsafe) private static let output = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    nonisolated(unsafe) private static let marker = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    nonisolated(unsafe) private static var hasPrevious = false
    nonisolated(unsafe) private static var hasMarker = false
    nonisolated(unsafe) private static var isFirst = false
    nonisolated(unsafe) private static var device: dev_t = 0
    nonisolated(unsafe) private static var inode: ino_t = 0

    private static let isThere = Atomic<Bool>(false)
    private static let command = Atomic<pid_t>(0)
    private static let isEnding = Atomic<Bool>(false)

    /// From here on, a signal that ends this process first deletes a file, until ``forget()``.
    static func isAt(_ file: String) { begin(file, for: "", isFirst: false) }

    /// Protects an output from here on, until ``forget()`` or ``undo(wasInstalled:)``.
    /// - Parameters:
    ///   - file: where the new file is.
    ///   - path: the output.
    ///   - isFirst: whether the output is to be deleted, because there was none before, if the new file does not stay.
    static func begin(_ file: String, for path: String, isFirst: Bool) {
        _ = catchesSignals
        var status = stat()
        // Longer paths cannot have been opened.
        guard file.utf8.count < Int(PATH_MAX), path.utf8.count < Int(PATH_MAX), lstat(file, &status) == 0 else {
            return
        }
        strcpy(temporary, file)
        strcpy(output, path)
        (hasPrevious, hasMarker, self.isFirst) = (false, false, isFirst)
        (device, inode) = (status.st_dev, status.st_ino)
        isThere.store(true, ordering: .sequentiallyConsistent)
    }

    /// Names the copy of the previous file, which takes its place again if the new one does not stay.
    static func keep(_ copy: String) {
        guard copy.utf8.count < Int(PATH_MAX) else { return }
        isThere.store(false, ordering: .sequentiallyConsistent)
        strcpy(previous, copy)
        hasPrevious = true
        isThere.store(true, ordering: .sequentiallyConsistent)
    }

    /// Names the marker of the output, which is deleted when the new file is confirmed or does not stay.
    static func mark(_ path: String) {
        guard path.utf8.count < Int(PATH_MAX) else { return }
        isThere.store(false, ordering: .sequentiallyConsistent)
        strcpy(marker, path)
        hasMarker = true
        isThere.store(true, ordering: .sequentiallyConsistent)
    }

    /// Leaves the output as it is from here on, and deletes what was kept for the case of a failure.
    static func forget() {
        guard isThere.exchange(false, ordering: .sequentiallyConsistent) else { return }
        // First: with a marker but without the copy that it names, the next call would report the previous file missing.
        if hasMarker { unlink(marker) }
        if hasPrevious { unlink(previous) }
    }

    /// Puts back what was there before.
    /// - Parameter wasInstalled: whether the new file had been put in place.
    static func undo(wasInstalled: Bool) -> Outcome {
        let (wasInPlace, failure) = putBack()
        isThere.store(false, ordering: .sequentiallyConsistent)
        if failure != 0 { return .stranded(String(cString: previous), failure) }
        if !wasInstalled { return .discarded }
        if !wasInPlace { return .superseded }
        return hasPrevious ? .restored : .removed
    }

    /// Only what a signal handler may do.
    private static func putBack() -> (wasInPlace: Bool, failure: CInt) {
        var status = stat()
        let isInPlace = lstat(output, &status) == 0 && status.st_ino == inode && status.st_dev == device
        if isInPlace {
            // The marker then stays, for the next call.
            if hasPrevious, rename(previous, output) != 0 { return (true, errno) }
            if !hasPrevious, isFirst { unlink(output) }
        } else {
            unlink(temporary)
            if hasPrevious { unlink(previous) }
        }
        if hasMarker { unlink(marker) }
        return (isInPlace, 0)
    }

    /// Waits for a command to end, and passes signals on to it while there is a candidate.
    static func wait(for child: pid_t) -> ProgramEnd {
        command.store(child, ordering: .sequentiallyConsistent)
        // It stays a zombie until no signal is sent to it: its number could then belong to another process.
        var information = siginfo_t()
        while waitid(P_PID, id_t(child), &information, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        command.store(0, ordering: .sequentiallyConsistent)
        // The command ended by the signal that ends this process, too: that is no verdict.
        while isEnding.load(ordering: .sequentiallyConsistent) { pause() }
        var status: CInt = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        return ProgramEnd(waitStatus: status)
    }

    private static let catchesSignals: Bool = {
        for number in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] where !SignalDispositions.inherited.ignores(number) {
            var action = sigaction()
            action.sa_flags = SA_RESTART | SA_SIGINFO
            action.__sigaction_handler.sa_sigaction = { number, information, _ in
                if Candidate.isThere.load(ordering: .sequentiallyConsistent) {
                    Candidate.isEnding.store(true, ordering: .sequentiallyConsistent)
                    _ = Candidate.putBack()
                    let child = Candidate.command.load(ordering: .sequentiallyConsistent)
                    // The keyboard's signals reach it without this process (above 0: from the kernel, sigaction(2)).
                    if child > 0, (information?.pointee.si_code ?? 0) <= 0 { kill(child, number) }
                }
                // Blocked until the handler returns; then this process ends by it, as its sender expects.
                signal(number, SIG_DFL)
                raise(number)
            }
            sigaction(number, &action, nil)
        }
        return true
    }()
}
