import Glibc
internal import LarderPlatform

/// The system calls on the cache directory, thin and synchronous: no suspension point can hide in them. Names are relative
/// to the directory and consist of hexadecimal digits and fixed words; they cannot lead out of it (``OpenBeneath``).
///
/// ``LocalCacheFiles`` makes the real calls; tests replace it by a failing or slow disk.
protocol CacheFiles: Sendable {
    /// Makes a directory with mode 0750 in an existing one; false if it exists.
    func createDirectory(_ name: String) throws(CacheFileError) -> Bool
    /// Makes a new file of mode 0600 and opens it for writing.
    func create(_ name: String) throws(CacheFileError) -> any CacheFile
    /// Makes a file of mode 0600 if there is none, and allocates disk space for it (fallocate(2)). If that fails, there is no
    /// such file.
    func allocate(_ name: String, _ bytes: Int) throws(CacheFileError)
    /// Opens a file for reading; nil if there is none.
    func open(_ name: String) throws(CacheFileError) -> (any CacheFile)?
    /// Gives a file another name; false, without a change, if that is taken.
    func publish(_ name: String, as newName: String) throws(CacheFileError) -> Bool
    /// Gives a file another name, and replaces the file that has it.
    func replace(_ name: String, as newName: String) throws(CacheFileError)
    /// Removes a file; false if there was none.
    func remove(_ name: String) throws(CacheFileError) -> Bool
    /// Removes a directory if it is empty; false if it is not empty or does not exist.
    func removeDirectory(_ name: String) throws(CacheFileError) -> Bool
    /// Makes the names in a directory durable (fsync(2)).
    func synchronizeDirectory(_ name: String) throws(CacheFileError)
    /// The names in a directory without `.` and `..`, in no order; none if there is no directory.
    func list(_ name: String) throws(CacheFileError) -> [String]
    /// The unit in which the file system allocates space, in bytes: the size of a file rounded up to it estimates its space.
    var blockBytes: Int { get }
    /// The bytes allocated for a file or directory (`st_blocks`); 0 if it does not exist.
    func allocatedBytes(_ name: String) throws(CacheFileError) -> Int
    /// The free bytes of the disk (statvfs(3)).
    func freeBytes() throws(CacheFileError) -> Int
}

/// An open file of the cache directory, closed with its last reference.
protocol CacheFile: Sendable {
    /// The descriptor, valid while the file is referenced; nil for a test double.
    var descriptor: CInt? { get }
    /// The size in bytes.
    func size() throws(CacheFileError) -> Int
    /// The bytes allocated for it on the disk (`st_blocks`).
    func allocatedBytes() throws(CacheFileError) -> Int
    /// Appends bytes.
    func append(_ bytes: [UInt8]) throws(CacheFileError)
    /// Reads up to `count` bytes at an offset; none at the end.
    func read(at offset: Int, count: Int) throws(CacheFileError) -> [UInt8]
    /// Sets mode 0440 and makes the bytes durable.
    func seal() throws(CacheFileError)
}

/// A system call that failed.
struct CacheFileError: Error, Sendable, Hashable {
    /// The operation, as a verb.
    let operation: String
    /// The file, relative to the cache directory.
    let name: String
    /// The error number.
    let errno: CInt

    /// Whether the disk, or the user's share of it, is full.
    var isFullDisk: Bool { errno == ENOSPC || errno == EDQUOT }

    var asImageError: ImageError {
        let reason = Errno(number: errno).description
        if isFullDisk {
            return ImageError(
                .noRoom, "the disk of the cache is full (\(operation) \(name): \(reason)); free some of it")
        }
        // A unit with ProtectSystem=strict may write only where it says so (systemd.exec(5)).
        let advice = errno == EROFS ? "; a service of systemd needs ReadWritePaths= for it" : ""
        return ImageError(
            .storageFailed,
            "the cache cannot \(operation) \(name): \(reason); check its directory, its owner and the kernel's log"
                + advice)
    }
}
