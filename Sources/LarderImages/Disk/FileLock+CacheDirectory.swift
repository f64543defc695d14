import Glibc
internal import LarderPlatform

extension FileLock {
    /// Locks the cache directory for this process.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse``, which names the process that has the lock;
    ///   ``ImageError/Code/storageFailed``
    convenience init(cacheDirectory directory: String) throws(ImageError) {
        let path = directory + "/lock"
        let descriptor = uninterrupted { open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o640) }
        guard descriptor >= 0 else { throw CacheFileError(operation: "open", name: path, errno: errno).asImageError }
        // The content of the file is replaced below, which would destroy a file that has another name, too.
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_nlink <= 1 else {
            close(descriptor)
            throw CacheFileError(operation: "open", name: path, errno: EMLINK).asImageError
        }
        do throws(Failure) {
            try self.init(descriptor)
        } catch {
            switch error {
            case .failed(let error):
                throw CacheFileError(operation: "lock", name: path, errno: error.number).asImageError
            case .isHeld(let holder):
                throw ImageError(
                    .cacheInUse,
                    "another agent\(Int(holder).map { " (pid \($0))" } ?? "") uses the cache directory \(directory); stop "
                        + "it, or give this one another directory")
            }
        }
        writeProcessID()
    }
}
