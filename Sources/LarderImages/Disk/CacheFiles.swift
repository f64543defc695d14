import Glibc
internal import LarderPlatform

/// The system calls on the cache directory. The methods are thin and synchronous, so that they contain no suspension
/// point. Names are relative to the directory and consist of hexadecimal digits and constants, so they cannot lead
/// outside it (``OpenBeneath``).
///
/// ``LocalCacheFiles`` makes the real calls. Tests use failing and slow implementations.
protocol CacheFiles: Sendable {
    /// Creates a directory of mode 0750 in an existing directory. Returns false if it exists.
    func createDirectory(_ name: String) throws(CacheFileError) -> Bool
    /// Creates a file of mode 0600 and opens it for writing. Throws if the file exists.
    func create(_ name: String) throws(CacheFileError) -> any CacheFile
    /// Creates a file of mode 0600 if it does not exist, and allocates disk space for it (fallocate(2)). On failure the
    /// file is removed.
    func allocate(_ name: String, _ bytes: Int) throws(CacheFileError)
    /// Opens a file for reading. Returns nil if it does not exist.
    func open(_ name: String) throws(CacheFileError) -> (any CacheFile)?
    /// Returns whether a file exists, with one fstatat(2). False only if it certainly does not.
    func hasFile(_ name: UnsafePointer<CChar>) -> Bool
    /// Renames a file. Returns false, without a change, if the new name exists.
    func publish(_ name: String, as newName: String) throws(CacheFileError) -> Bool
    /// Renames a file, and replaces an existing file of that name.
    func replace(_ name: String, as newName: String) throws(CacheFileError)
    /// Removes a file. Returns false if it does not exist.
    func remove(_ name: String) throws(CacheFileError) -> Bool
    /// Removes a directory if it is empty. Returns false if it is not empty or does not exist.
    func removeDirectory(_ name: String) throws(CacheFileError) -> Bool
    /// Makes the names in a directory durable (fsync(2)).
    func synchronizeDirectory(_ name: String) throws(CacheFileError)
    /// The names in a directory without `.` and `..`, in no particular order. Empty if the directory does not exist.
    func list(_ name: String) throws(CacheFileError) -> [String]
    /// The unit in which the file system allocates space, in bytes. A file's size, rounded up to whole units, is an
    /// estimate of its disk space.
    var blockBytes: Int { get }
    /// The bytes allocated for a file or directory (`st_blocks`). Returns 0 if it does not exist.
    func allocatedBytes(_ name: String) throws(CacheFileError) -> Int
    /// The free bytes on the disk (statvfs(3)).
    func freeBytes() throws(CacheFileError) -> Int
}

/// An open file in the cache directory. It is closed when the last reference is released.
protocol CacheFile: Sendable {
    /// The descriptor, valid while the file is referenced. Nil for a test double.
    var descriptor: CInt? { get }
    /// The size in bytes.
    func size() throws(CacheFileError) -> Int
    /// The bytes allocated on the disk (`st_blocks`).
    func allocatedBytes() throws(CacheFileError) -> Int
    func append(_ bytes: [UInt8]) throws(CacheFileError)
    /// Reads up to `count` bytes at an offset; empty at the end.
    func read(at offset: Int, count: Int) throws(CacheFileError) -> [UInt8]
    /// Sets mode 0440 and makes the bytes durable.
    func seal() throws(CacheFileError)
}

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

/// A failed system call.
struct CacheFileError: ImageErrorConvertible, Sendable, Hashable {
    /// The operation, as a verb.
    let operation: String
    /// The name of the file: relative to the cache directory, or absolute.
    let name: String
    let errno: CInt

    /// Whether the disk is full or the user's disk quota is used up.
    var isFullDisk: Bool { errno == ENOSPC || errno == EDQUOT }

    var asImageError: ImageError {
        let reason = Errno(number: errno).description
        if isFullDisk {
            return ImageError(
                .cacheFull, "the disk of the cache is full (\(operation) \(name): \(reason)); free some space")
        }
        // A systemd unit with ProtectSystem=strict can write only to the paths in its ReadWritePaths=
        // (systemd.exec(5)). Other paths are read-only for it.
        let advice = errno == EROFS ? "; for a systemd service, add the directory to ReadWritePaths=" : ""
        return ImageError(
            .storageFailed,
            "the cache cannot \(operation) \(name): \(reason); check its directory, its owner and the kernel log"
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
