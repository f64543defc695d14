import CLinuxShims
import Glibc
import LarderEncoding
import Synchronization

/// A new version of an output file. It is not final until the check (`--check`) and the command after the change
/// (`--exec`) have succeeded. If one of them fails, or a signal ends this process, the previous file is restored. Such
/// a signal is also sent to the check or command that is running.
///
/// After a signal, the signal handler restores the file, with async-signal-safe calls only (signal-safety(7)). Signal
/// handlers are global, so there is only one candidate at a time.
enum Candidate {
    /// The state of the output after the new file was undone.
    enum Outcome: Equatable {
        /// The new file was deleted before it had replaced the output.
        case discarded
        /// The previous file was restored.
        case restored
        /// The new file was deleted, and there was no previous file.
        case removed
        /// Another process had replaced the output. The file of that process was kept.
        case superseded
        /// The previous file could not be restored. The values are the path of the copy of that file, and the `errno`.
        case restoreFailed(String, CInt)
    }

    // The paths are in memory that is allocated in advance, because a signal handler must not allocate.
    // `nonisolated(unsafe)`, because a signal handler must not take a lock. The memory is written only while `isActive`
    // is false, and the handler reads it only while `isActive` is true.
    nonisolated(unsafe) private static let temporary = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    nonisolated(unsafe) private static let previous = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    nonisolated(unsafe) private static let output = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    nonisolated(unsafe) private static let marker = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    nonisolated(unsafe) private static var hasPrevious = false
    nonisolated(unsafe) private static var hasMarker = false
    nonisolated(unsafe) private static var isFirst = false
    nonisolated(unsafe) private static var device: dev_t = 0
    nonisolated(unsafe) private static var inode: ino_t = 0

    private static let isActive = Atomic<Bool>(false)
    /// The process ID of the running command, or its negative process group; 0 for none.
    private static let command = Atomic<pid_t>(0)
    private static let isEnding = Atomic<Bool>(false)

    /// Protects a temporary file: until ``commit()``, a signal that ends this process first deletes it.
    static func protect(_ file: String) { begin(file, for: "", isFirst: false) }

    /// Protects an output until ``commit()`` or ``undo(wasInstalled:)``.
    /// - Parameters:
    ///   - file: the path of the new file.
    ///   - path: the path of the output.
    ///   - isFirst: whether the output did not exist before. If so, an undo deletes the output.
    static func begin(_ file: String, for path: String, isFirst: Bool) {
        _ = catchesSignals
        var status = stat()
        // A file with a path of `PATH_MAX` bytes or more cannot exist, because it could not have been opened.
        guard file.utf8.count < Int(PATH_MAX), path.utf8.count < Int(PATH_MAX), lstat(file, &status) == 0 else {
            return
        }
        strcpy(temporary, file)
        strcpy(output, path)
        (hasPrevious, hasMarker, self.isFirst) = (false, false, isFirst)
        (device, inode) = (status.st_dev, status.st_ino)
        isActive.store(true, ordering: .sequentiallyConsistent)
    }

    /// Sets the path of the copy of the previous file, which ``undo(wasInstalled:)`` restores.
    static func keep(_ copy: String) {
        guard copy.utf8.count < Int(PATH_MAX) else { return }
        isActive.store(false, ordering: .sequentiallyConsistent)
        strcpy(previous, copy)
        hasPrevious = true
        isActive.store(true, ordering: .sequentiallyConsistent)
    }

    /// Sets the path of the marker of the output (``UnconfirmedMarker``), which is deleted when the new file is
    /// confirmed or undone.
    static func mark(_ path: String) {
        guard path.utf8.count < Int(PATH_MAX) else { return }
        isActive.store(false, ordering: .sequentiallyConsistent)
        strcpy(marker, path)
        hasMarker = true
        isActive.store(true, ordering: .sequentiallyConsistent)
    }

    /// Accepts the output as it is, and deletes the marker and the copy of the previous file.
    static func commit() {
        guard isActive.exchange(false, ordering: .sequentiallyConsistent) else { return }
        // The marker is deleted first. If only the copy were deleted, the next run would find the marker and report
        // that the previous file is missing.
        if hasMarker { unlink(marker) }
        if hasPrevious { unlink(previous) }
    }

    /// Restores the previous file. If there was no previous file, deletes the new one.
    /// - Parameter wasInstalled: whether the new file had been put in place.
    static func undo(wasInstalled: Bool) -> Outcome {
        let (wasInPlace, failure) = restorePrevious()
        isActive.store(false, ordering: .sequentiallyConsistent)
        if failure != 0 { return .restoreFailed(String(cString: previous), failure) }
        if !wasInstalled { return .discarded }
        if !wasInPlace { return .superseded }
        return hasPrevious ? .restored : .removed
    }

    /// Implements ``undo(wasInstalled:)`` with async-signal-safe calls only.
    private static func restorePrevious() -> (wasInPlace: Bool, failure: CInt) {
        var status = stat()
        let isInPlace = lstat(output, &status) == 0 && status.st_ino == inode && status.st_dev == device
        if isInPlace {
            // If the copy of the previous file cannot be renamed to the output, the marker stays, so that the next run
            // can restore the previous file.
            if hasPrevious, rename(previous, output) != 0 { return (true, errno) }
            if !hasPrevious, isFirst { unlink(output) }
        } else {
            unlink(temporary)
            if hasPrevious { unlink(previous) }
        }
        if hasMarker { unlink(marker) }
        return (isInPlace, 0)
    }

    /// Waits for a command to end. Until then, signals that end this process are forwarded to the command.
    /// - Parameters:
    ///   - leadsGroup: whether the command leads a process group, which then gets the signals.
    ///   - running: the command, with its timeouts.
    /// - Returns: how the command ended; nil if it was ended after the timeout.
    static func wait(for child: pid_t, leadsGroup: Bool, _ running: ShellCommand) -> ProgramEnd? {
        _ = catchesSignals
        let target = leadsGroup ? -child : child
        command.store(target, ordering: .sequentiallyConsistent)
        var isInTime = true
        if !hasEnded(child, within: running.timeout) {
            isInTime = false
            kill(target, SIGTERM)
            _ = hasEnded(child, within: running.killDelay)
            // This also ends the rest of the group if the command has ended. The command has not been waited for, so no
            // other process can have its process ID.
            kill(target, SIGKILL)
        }
        // With WNOWAIT the child stays a zombie until the signal handler can no longer send signals to it. Otherwise
        // another process could get its process ID and the signal.
        var information = siginfo_t()
        while waitid(P_PID, id_t(child), &information, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        command.store(0, ordering: .sequentiallyConsistent)
        // If a signal is ending this process, the signal probably ended the command as well. Then the result of the
        // command must not be used, so this thread waits for the end of the process.
        while isEnding.load(ordering: .sequentiallyConsistent) { pause() }
        var status: CInt = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        return isInTime ? ProgramEnd(waitStatus: status) : nil
    }

    /// Waits until a child has ended, but does not collect its status.
    /// - Returns: whether the child ended within this time, which includes the time in which the machine is suspended.
    private static func hasEnded(_ child: pid_t, within time: Duration) -> Bool {
        let clock = ContinuousClock()
        let end = clock.now + time
        var process = pollfd(fd: larder_open_process(child), events: Int16(POLLIN), revents: 0)
        defer { if process.fd >= 0 { close(process.fd) } }
        // The timeout of poll(2) does not count suspensions, so the time is checked each second. Without a descriptor,
        // poll(2) only waits, so the child is checked at short intervals.
        let longest = process.fd >= 0 ? 1_000 : 50
        while true {
            var information = siginfo_t()
            information.si_signo = 0
            let result = waitid(P_PID, id_t(child), &information, WEXITED | WNOWAIT | WNOHANG)
            if result == 0, information.si_signo != 0 { return true }
            let left = clock.now.duration(to: end)
            guard left > .zero else { return false }
            poll(&process, 1, CInt(clamping: min(left.milliseconds, longest)))
        }
    }

    private static let catchesSignals: Bool = {
        for number in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] where !SignalDispositions.inherited.ignores(number) {
            var action = sigaction()
            action.sa_flags = SA_RESTART | SA_SIGINFO
            action.__sigaction_handler.sa_sigaction = { number, information, _ in
                Candidate.isEnding.store(true, ordering: .sequentiallyConsistent)
                if Candidate.isActive.load(ordering: .sequentiallyConsistent) { _ = Candidate.restorePrevious() }
                let target = Candidate.command.load(ordering: .sequentiallyConsistent)
                // Signals from the keyboard reach a command in the group of this process directly, so they are not
                // forwarded. The kernel sends them with a code above 0 (sigaction(2)).
                if target < 0 || (target > 0 && (information?.pointee.si_code ?? 0) <= 0) { kill(target, number) }
                // The signal is blocked until the handler returns. Then it ends this process, as its sender expects.
                signal(number, SIG_DFL)
                raise(number)
            }
            sigaction(number, &action, nil)
        }
        return true
    }()
}
