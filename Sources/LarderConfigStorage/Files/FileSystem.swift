import Glibc
import LarderPlatform

/// The system calls that the archive needs, as thin synchronous functions: no suspension point can hide in them.
///
/// The real one is ``LocalFileSystem``. Tests put a failing one in its place, to see what a full or broken disk does.
package protocol FileSystem: Sendable {
    /// Makes a directory and its parents, mode 0700; it is no error when it exists.
    func createDirectory(_ path: String) throws(FileError)
    /// The names in a directory, in no order, without `.` and `..`.
    func list(_ path: String) throws(FileError) -> [String]
    /// The whole file, or nil where there is none.
    func read(_ path: String) throws(FileError) -> [UInt8]?
    /// The first bytes of a file and its length; nil if there is no file.
    func head(of path: String, bytes: Int) throws(FileError) -> (bytes: [UInt8], size: Int)?
    /// A journal without the zeros at its end; nil where there is no file.
    func readJournal(_ path: String) throws(FileError) -> JournalContent?
    /// Writes a whole file in one step: a temporary name in the same directory, fsync, rename, fsync of the directory.
    func replace(_ path: String, with bytes: [UInt8]) throws(FileError)
    /// Gives a file another name in the same directory.
    func rename(_ path: String, to newPath: String) throws(FileError)
    /// Removes a file; it is no error when it does not exist.
    func remove(_ path: String) throws(FileError)
    /// Opens a file for writing in place, making it `size` zero bytes long where it is shorter.
    func openJournal(_ path: String, size: Int) throws(FileError) -> any JournalFile
}

extension FileSystem {
    package func head(of path: String, bytes: Int) throws(FileError) -> (bytes: [UInt8], size: Int)? {
        guard let content = try read(path) else { return nil }
        return (Array(content.prefix(bytes)), content.count)
    }
}

/// A file that is written in place and synchronised at each write.
package protocol JournalFile: Sendable {
    /// Writes bytes at an offset and waits until they are on disk (fdatasync(2)).
    func write(_ bytes: [UInt8], at offset: Int) throws(FileError)
    /// Makes a file that is longer this long (ftruncate(2)). After a crash it may have its former length.
    func truncate(to size: Int) throws(FileError)
}

/// What a journal's file holds.
package struct JournalContent: Sendable, Hashable {
    /// Its bytes up to the last one that is not zero.
    package var bytes: [UInt8]
    /// How many zeros follow them.
    package var zeros: Int

    /// Makes it of all bytes up to the last one that is not zero.
    package init(bytes: [UInt8], zeros: Int) {
        self.bytes = bytes
        self.zeros = zeros
    }
}

/// A system call that failed.
package struct FileError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What was tried, as a verb: `open`, `fsync`.
    package let operation: String
    /// On which file.
    package let path: String
    /// The error number of the system call.
    package let errno: CInt
    /// What is wrong, if it is more than the system's text for `errno`.
    private let reason: String?

    /// - Parameter reason: what is wrong and what to do; nil for the system's text
    package init(_ operation: String, _ path: String, errno: CInt, reason: String? = nil) {
        self.operation = operation
        self.path = path
        self.errno = errno
        self.reason = reason
    }

    /// Makes the error of a file that can be read and not be used: another version of this program wrote it.
    package init(notOursYet path: String, _ reason: String) {
        self.init("use", path, errno: ENOTSUP, reason: reason)
    }

    /// Makes the error of a file that is a directory, a FIFO, a socket or a device.
    package init(notARegularFile path: String) {
        self.init("open", path, errno: EINVAL, reason: "it is not a regular file; remove it")
    }

    /// One line: the operation, the path and the system's words.
    package var description: String {
        if let reason { return "\(operation) \(path): \(reason)" }
        // A unit with ProtectSystem=strict may write only where it says so (systemd.exec(5)).
        let advice = errno == EROFS ? "; a service of systemd needs ReadWritePaths= for it (systemctl edit)" : ""
        return "\(operation) \(path): \(Errno(number: errno))\(advice)"
    }
}
