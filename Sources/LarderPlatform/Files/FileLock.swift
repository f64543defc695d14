import Glibc
package import SystemPackage

/// An exclusive lock on a file or directory (flock(2)). The lock is released by ``unlock()``, when the last reference
/// to this object is released, or when the process ends.
package final class FileLock: Sendable {
    /// Why the lock could not be acquired.
    package enum Failure: Error {
        /// Another process holds the lock. The text is what that process wrote with ``writeProcessID()``; empty if it
        /// wrote nothing.
        case isHeld(by: String)
        /// A system call failed.
        case failed(Errno)
    }

    package let descriptor: CInt

    /// Acquires the lock without waiting. Takes ownership of the descriptor, and closes it if this initializer throws.
    package init(_ descriptor: CInt) throws(Failure) {
        guard uninterrupted({ flock(descriptor, LOCK_EX | LOCK_NB) }) == 0 else {
            let error = Errno.current
            defer { close(descriptor) }
            throw error == .wouldBlock ? .isHeld(by: Self.holder(descriptor)) : .failed(error)
        }
        self.descriptor = descriptor
    }

    deinit {
        unlock()
        close(descriptor)
    }

    /// Releases the lock. The file stays open.
    package func unlock() {
        // Closing the descriptor alone would not release the lock while a child process between fork(2) and execve(2)
        // has a copy of the descriptor.
        flock(descriptor, LOCK_UN)
    }

    /// Replaces the content of the file with the process ID. Errors are ignored, because the ID only helps people find
    /// the holder.
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
