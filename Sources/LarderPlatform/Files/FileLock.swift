import Glibc

/// An exclusive lock on a file or directory (flock(2)). The lock is released with the last reference at the latest, and also
/// if the process dies.
package final class FileLock: Sendable {
    /// Why a lock was not taken.
    package enum Failure: Error {
        /// Another process holds it. The text is what that process wrote with ``writeProcessID()``; empty if there is none.
        case isHeld(by: String)
        /// The call failed.
        case failed(Errno)
    }

    /// The open file.
    package let descriptor: CInt

    /// Takes the lock without waiting. The descriptor belongs to the lock afterwards, and is closed if this throws.
    package init(_ descriptor: CInt) throws(Failure) {
        guard uninterrupted({ flock(descriptor, LOCK_EX | LOCK_NB) }) == 0 else {
            let error = Errno.current
            defer { close(descriptor) }
            throw error.number == EWOULDBLOCK ? .isHeld(by: Self.holder(descriptor)) : .failed(error)
        }
        self.descriptor = descriptor
    }

    deinit {
        unlock()
        close(descriptor)
    }

    /// Releases the lock. The file stays open.
    package func unlock() {
        // To close the file alone would leave the lock with a child process that is between fork(2) and execve(2).
        flock(descriptor, LOCK_UN)
    }

    /// Replaces the content of the file by the process ID. It is a hint for people and may fail: the lock alone counts.
    package func writeProcessID() {
        let text = Array("\(getpid())\n".utf8)
        _ = ftruncate(descriptor, 0)
        _ = text.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
    }

    private static func holder(_ descriptor: CInt) -> String {
        var text = [UInt8](repeating: 0, count: 16)
        let count = text.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
        return String(decoding: text.prefix(max(0, count)).filter { $0 != 0x0A }, as: UTF8.self)
    }
}
