import Glibc
internal import SystemPackage

/// The operations on files by path. They are synchronous and contain no suspension point,
/// so callers can hold a lock during an operation.
///
/// ``LocalFileSystem`` is the real implementation. Tests use one that fails, to simulate a full or broken disk.
package protocol FileSystem: Sendable {
    /// Creates a directory and its parents with mode 0700. Succeeds if it exists.
    func createDirectory(_ path: String) throws(FileError)
    /// The names in a directory, in no particular order, without `.` and `..`.
    func list(_ path: String) throws(FileError) -> [String]
    /// Reads a whole file; nil if it does not exist.
    func read(_ path: String) throws(FileError) -> [UInt8]?
    /// Reads the first bytes of a file, and its size; nil if it does not exist.
    func head(of path: String, bytes: Int) throws(FileError) -> (bytes: [UInt8], size: Int)?
    /// Reads a journal without the zeros at its end; nil if it does not exist.
    func readJournal(_ path: String) throws(FileError) -> JournalContent?
    /// Replaces a whole file in one step: writes a temporary file in the same directory, then calls fsync, rename, and
    /// fsync of the directory.
    func replace(_ path: String, with bytes: [UInt8]) throws(FileError)
    /// Renames a file within its directory.
    func rename(_ path: String, to newPath: String) throws(FileError)
    /// Removes a file. Succeeds if it does not exist.
    func remove(_ path: String) throws(FileError)
    /// Opens a file for writing in place, and creates it if necessary. A file of less than `size` bytes is extended
    /// with zeros.
    func openJournal(_ path: String, size: Int) throws(FileError) -> any JournalFile
}

/// A file that is written in place. Each write is synchronized to disk.
package protocol JournalFile: Sendable {
    /// Writes bytes at an offset and waits until they are on disk (fdatasync(2)).
    func write(_ bytes: [UInt8], at offset: Int) throws(FileError)
    /// Shortens a longer file to `size` bytes (ftruncate(2)). After a crash the file may have its previous size.
    func truncate(to size: Int) throws(FileError)
}

/// The content of a journal file.
package struct JournalContent: Sendable, Hashable {
    /// The bytes up to the last one that is not zero.
    package var bytes: [UInt8]
    /// The number of zeros after ``bytes``.
    package var zeros: Int

    package init(bytes: [UInt8], zeros: Int) {
        self.bytes = bytes
        self.zeros = zeros
    }
}

/// A file operation that failed.
package struct FileError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The operation that failed, as a verb such as `open` or `fsync`.
    package let operation: String
    /// The path of the file, or its name relative to the directory of ``DirectoryFiles``.
    package let path: String
    package let errno: CInt
    /// A reason that says more than the system's text for `errno`; nil to use that text.
    private let reason: String?

    /// - Parameter reason: what is wrong and what to do; nil to use the system's text for `errno`
    package init(_ operation: String, _ path: String, errno: CInt, reason: String? = nil) {
        self.operation = operation
        self.path = path
        self.errno = errno
        self.reason = reason
    }

    /// Whether the disk is full or the user's disk quota is used up.
    package var isFullDisk: Bool { errno == ENOSPC || errno == EDQUOT }

    /// The error for a file that this version of the program cannot use, because another version wrote it.
    package init(notOursYet path: String, _ reason: String) {
        self.init("use", path, errno: ENOTSUP, reason: reason)
    }

    /// The error for a path that is a directory, a FIFO, a socket or a device.
    package init(notARegularFile path: String) {
        self.init("open", path, errno: EINVAL, reason: "it is not a regular file; remove it")
    }

    /// One line: the operation, the path and the reason.
    package var description: String {
        if let reason { return "\(operation) \(path): \(reason)" }
        // With ProtectSystem=strict, a systemd service can write only to the paths in ReadWritePaths=
        // (systemd.exec(5)).
        let advice = errno == EROFS ? "; for a systemd service, add it to ReadWritePaths= (systemctl edit)" : ""
        return "\(operation) \(path): \(Errno(rawValue: errno))\(advice)"
    }
}
