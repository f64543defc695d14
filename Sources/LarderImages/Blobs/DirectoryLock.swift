import CLinuxShims
internal import LarderPlatform
internal import LarderUpstream
import Glibc

/// The claim of one process on the cache directory: flock(2) on a file in it, which ends with the process however that
/// dies. The file's text is the holder's pid, for people.
final class DirectoryLock: Sendable {
    private let descriptor: CInt

    /// Takes the claim.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse``, which names the holder; ``ImageError/Code/storageFailed``
    init(directory: String) throws(ImageError) {
        let path = directory + "/lock"
        let descriptor = uninterrupted { open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o640) }
        guard descriptor >= 0 else { throw CacheFileError(operation: "open", name: path, errno: errno).asImageError }
        guard uninterrupted({ flock(descriptor, LOCK_EX | LOCK_NB) }) == 0 else {
            let number = errno
            defer { close(descriptor) }
            guard number == EWOULDBLOCK else {
                throw CacheFileError(operation: "lock", name: path, errno: number).asImageError
            }
            let holder = Self.holder(descriptor)
            throw ImageError(
                .cacheInUse,
                "another agent\(holder.map { " (pid \($0))" } ?? "") uses the cache directory \(directory); stop it, or give "
                    + "this one another directory")
        }
        self.descriptor = descriptor
        let text = Array("\(getpid())\n".utf8)
        // Only a hint: what counts is the lock.
        _ = ftruncate(descriptor, 0)
        _ = text.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
    }

    deinit {
        // Closing alone would leave the claim with a child that is between fork(2) and execve(2).
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    private static func holder(_ descriptor: CInt) -> Int? {
        var text = [UInt8](repeating: 0, count: 16)
        let count = text.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
        return Int(String(decoding: text.prefix(max(0, count)).filter { $0 != 0x0A }, as: UTF8.self))
    }
}
