import Glibc
internal import LarderPlatform

/// The system calls on the cache directory, thin and synchronous: no suspension point can hide in them. Names are relative
/// to the directory, made by us of hexadecimal digits and fixed words, and lead nowhere else (``OpenBeneath``).
///
/// The real ones are ``LocalCacheFiles``; tests put a failing or slow disk in their place.
protocol CacheFiles: Sendable {
    /// Makes a directory with mode 0750; no if it exists. The one that it is in must exist.
    func createDirectory(_ name: String) throws(CacheFileError) -> Bool
    /// Makes a new file of mode 0600 and opens it for writing.
    func create(_ name: String) throws(CacheFileError) -> any CacheFile
    /// Makes a file of mode 0600 if there is none, and has the disk set so many bytes aside for it (fallocate(2)). Where that
    /// fails there is no such file.
    func allocate(_ name: String, _ bytes: Int) throws(CacheFileError)
    /// Opens a file for reading, or nothing where there is none.
    func open(_ name: String) throws(CacheFileError) -> (any CacheFile)?
    /// Gives a file another name, if that is not taken; no if it is, and nothing happened then.
    func publish(_ name: String, as newName: String) throws(CacheFileError) -> Bool
    /// Gives a file another name, whatever had it before.
    func replace(_ name: String, as newName: String) throws(CacheFileError)
    /// Removes a file; no if there was none.
    func remove(_ name: String) throws(CacheFileError) -> Bool
    /// Removes a directory if it is empty; false if it is not empty or does not exist.
    func removeDirectory(_ name: String) throws(CacheFileError) -> Bool
    /// Makes the names in a directory durable (fsync(2)).
    func synchronizeDirectory(_ name: String) throws(CacheFileError)
    /// The names in a directory without `.` and `..`, in no order; none where there is no directory.
    func list(_ name: String) throws(CacheFileError) -> [String]
    /// The unit in which the file system allocates space, in bytes: the size of a file rounded up to it estimates its space.
    var blockBytes: Int { get }
    /// The bytes allocated for a file or directory (`st_blocks`); 0 if it does not exist.
    func allocatedBytes(_ name: String) throws(CacheFileError) -> Int
    /// The bytes that are free for us on the disk (statvfs(3)).
    func freeBytes() throws(CacheFileError) -> Int
}

/// An open file of the cache directory. It is closed with its last reference.
protocol CacheFile: Sendable {
    /// The descriptor, as long as the file is referenced; nothing for one that is none.
    var descriptor: CInt? { get }
    /// The size in bytes.
    func size() throws(CacheFileError) -> Int
    /// The bytes allocated for it on the disk (`st_blocks`).
    func allocatedBytes() throws(CacheFileError) -> Int
    /// Adds bytes at the end.
    func append(_ bytes: [UInt8]) throws(CacheFileError)
    /// Reads up to `count` bytes at an offset; none at the end.
    func read(at offset: Int, count: Int) throws(CacheFileError) -> [UInt8]
    /// Makes it readable for owner and group and writable for nobody (mode 0440), and makes its bytes durable.
    func seal() throws(CacheFileError)
}

/// A system call that failed.
struct CacheFileError: Error, Sendable, Hashable {
    /// What was tried, as a verb.
    let operation: String
    /// On what, relative to the cache directory.
    let name: String
    /// The error number.
    let errno: CInt

    /// Whether the disk, or the user's share of it, is full.
    var isFullDisk: Bool { errno == ENOSPC || errno == EDQUOT }

    /// As an error for people.
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
