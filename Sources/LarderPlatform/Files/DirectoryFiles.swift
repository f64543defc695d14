/// The files below one directory, which stays open. The methods are thin and synchronous, so that they contain no
/// suspension point. Names are relative to the directory and cannot lead outside it (``OpenBeneath``).
///
/// ``LocalDirectoryFiles`` makes the real calls. Tests use failing and slow implementations.
package protocol DirectoryFiles: Sendable {
    /// Creates a directory of mode 0750 in an existing directory. Returns false if it exists.
    func createDirectory(_ name: String) throws(FileError) -> Bool
    /// Creates a file of mode 0600 and opens it for writing. Throws if the file exists.
    func create(_ name: String) throws(FileError) -> any DirectoryFile
    /// Creates a file of mode 0600 if it does not exist, and allocates disk space for it (fallocate(2)). On failure the
    /// file is removed.
    func allocate(_ name: String, _ bytes: Int) throws(FileError)
    /// Opens a file for reading. Returns nil if it does not exist.
    func open(_ name: String) throws(FileError) -> (any DirectoryFile)?
    /// Returns whether a file exists, with one fstatat(2). False only if it certainly does not.
    func hasFile(_ name: UnsafePointer<CChar>) -> Bool
    /// Renames a file. Returns false, without a change, if the new name exists.
    func publish(_ name: String, as newName: String) throws(FileError) -> Bool
    /// Renames a file, and replaces an existing file of that name.
    func replace(_ name: String, as newName: String) throws(FileError)
    /// Removes a file. Returns false if it does not exist.
    func remove(_ name: String) throws(FileError) -> Bool
    /// Removes a directory if it is empty. Returns false if it is not empty or does not exist.
    func removeDirectory(_ name: String) throws(FileError) -> Bool
    /// Makes the names in a directory durable (fsync(2)).
    func synchronizeDirectory(_ name: String) throws(FileError)
    /// The names in a directory without `.` and `..`, in no particular order. Empty if the directory does not exist.
    func list(_ name: String) throws(FileError) -> [String]
    /// The unit in which the file system allocates space, in bytes. A file's size, rounded up to whole units, is an
    /// estimate of its disk space.
    var blockBytes: Int { get }
    /// The bytes allocated for a file or directory (`st_blocks`). Returns 0 if it does not exist.
    func allocatedBytes(_ name: String) throws(FileError) -> Int
    /// The free bytes on the disk (statvfs(3)).
    func freeBytes() throws(FileError) -> Int
}

/// An open file in a directory. It is closed when the last reference is released.
package protocol DirectoryFile: Sendable {
    /// The descriptor, valid while the file is referenced. Nil for a test double.
    var descriptor: CInt? { get }
    /// The size in bytes.
    func size() throws(FileError) -> Int
    /// The bytes allocated on the disk (`st_blocks`).
    func allocatedBytes() throws(FileError) -> Int
    func append(_ bytes: [UInt8]) throws(FileError)
    /// Reads up to `count` bytes at an offset; empty at the end.
    func read(at offset: Int, count: Int) throws(FileError) -> [UInt8]
    /// Sets mode 0440 and makes the bytes durable.
    func seal() throws(FileError)
}
