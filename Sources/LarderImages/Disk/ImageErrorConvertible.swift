import Glibc
internal import LarderPlatform
internal import SystemPackage

/// An error that users of the cache get as an ``ImageError``.
protocol ImageErrorConvertible: Error {
    var asImageError: ImageError { get }
}

extension ImageError: ImageErrorConvertible {
    var asImageError: ImageError { self }

    /// Runs `body` and converts its errors.
    static func from<Value, Failure: ImageErrorConvertible>(
        _ body: () throws(Failure) -> Value
    ) throws(ImageError) -> Value {
        do throws(Failure) { return try body() } catch { throw error.asImageError }
    }
}

extension FileError: ImageErrorConvertible {
    var asImageError: ImageError {
        let reason = "\(Errno(rawValue: errno))"
        if isFullDisk {
            return ImageError(
                .cacheFull, "the disk of the cache is full (\(operation) \(path): \(reason)); free some space")
        }
        // A systemd unit with ProtectSystem=strict can write only to the paths in its ReadWritePaths=
        // (systemd.exec(5)). Other paths are read-only for it.
        let advice = errno == EROFS ? "; for a systemd service, add the directory to ReadWritePaths=" : ""
        return ImageError(
            .storageFailed,
            "the cache cannot \(operation) \(path): \(reason); check its directory, its owner and the kernel log"
                + advice)
    }
}

extension FileLock {
    /// Locks the cache directory for this process.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse``, which names the process that has the lock;
    ///   ``ImageError/Code/storageFailed``
    convenience init(cacheDirectory directory: String) throws(ImageError) {
        let path = directory + "/lock"
        let descriptor = uninterrupted { open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o640) }
        guard descriptor >= 0 else { throw FileError("open", path, errno: errno).asImageError }
        // The content of the file is replaced below, which would destroy a file that has another name, too.
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_nlink <= 1 else {
            close(descriptor)
            throw FileError("open", path, errno: EMLINK).asImageError
        }
        do throws(Failure) {
            try self.init(descriptor)
        } catch {
            switch error {
            case .failed(let error):
                throw FileError("lock", path, errno: error.rawValue).asImageError
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
