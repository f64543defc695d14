internal import LarderUpstream
import Glibc

/// The system calls that the archive needs, as thin synchronous functions: no suspension point can hide in them.
///
/// The real one is ``LocalFileSystem``. Tests put a failing one in its place, to see what a full or broken disk does.
public protocol FileSystem: Sendable {
    /// Makes a directory and its parents, mode 0700; it is no error when it exists.
    func createDirectory(_ path: String) throws(FileError)
    /// The names in a directory, in no order, without `.` and `..`.
    func list(_ path: String) throws(FileError) -> [String]
    /// The whole file, or nil where there is none.
    func read(_ path: String) throws(FileError) -> [UInt8]?
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

/// A file that is written in place and synchronised at each write.
public protocol JournalFile: Sendable {
    /// Writes bytes at an offset and waits until they are on disk (fdatasync(2)).
    func write(_ bytes: [UInt8], at offset: Int) throws(FileError)
    /// Makes a file that is longer this long (ftruncate(2)). After a crash it may have its former length.
    func truncate(to size: Int) throws(FileError)
}

/// What a journal's file holds.
public struct JournalContent: Sendable, Hashable {
    /// Its bytes up to the last one that is not zero.
    public var bytes: [UInt8]
    /// How many zeros follow them.
    public var zeros: Int

    /// Makes it of all bytes up to the last one that is not zero.
    public init(bytes: [UInt8], zeros: Int) {
        self.bytes = bytes
        self.zeros = zeros
    }
}

/// A system call that failed.
public struct FileError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What was tried, as a verb: `open`, `fsync`.
    public let operation: String
    /// On which file.
    public let path: String
    /// The error number of the system call.
    public let errno: CInt
    /// What is to be said in the place of the system's words; nil where these say it.
    private let reason: String?

    /// Makes an error.
    public init(_ operation: String, _ path: String, errno: CInt) {
        self.operation = operation
        self.path = path
        self.errno = errno
        reason = nil
    }

    /// Makes the error of a file that can be read and not be used: another version of this program wrote it.
    init(notOursYet path: String, _ reason: String) {
        operation = "use"
        self.path = path
        errno = ENOTSUP
        self.reason = reason
    }

    /// One line: the operation, the path and the system's words.
    public var description: String {
        if let reason { return "\(operation) \(path): \(reason)" }
        // A unit with ProtectSystem=strict may write only where it says so (systemd.exec(5)).
        let advice = errno == EROFS ? "; a service of systemd needs ReadWritePaths= for it (systemctl edit)" : ""
        return "\(operation) \(path): \(String(cString: strerror(errno)))\(advice)"
    }
}

/// The real file system.
public struct LocalFileSystem: FileSystem {
    public init() {}

    /// Follows mkdir(2).
    public func createDirectory(_ path: String) throws(FileError) {
        if uninterrupted({ mkdir(path, 0o700) }) == 0 || errno == EEXIST { return }
        guard errno == ENOENT, let parent = Self.parent(path) else {
            throw FileError("make directory", path, errno: errno)
        }
        try createDirectory(parent)
        guard uninterrupted({ mkdir(path, 0o700) }) == 0 || errno == EEXIST else {
            throw FileError("make directory", path, errno: errno)
        }
    }

    /// Follows readdir(3).
    public func list(_ path: String) throws(FileError) -> [String] {
        guard let directory = uninterrupted({ opendir(path) }) else { throw FileError("list", path, errno: errno) }
        defer { closedir(directory) }
        var names: [String] = []
        while true {
            Glibc.errno = 0
            guard let entry = readdir(directory) else {
                // At the end errno is as it was (readdir(3)). A name that is missed could be that of the newest generation.
                if errno != 0 { throw FileError("list", path, errno: errno) }
                return names
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
    }

    /// Follows read(2).
    public func read(_ path: String) throws(FileError) -> [UInt8]? {
        let descriptor = uninterrupted { open(path, O_RDONLY | O_CLOEXEC) }
        if descriptor < 0 {
            if errno == ENOENT { return nil }
            throw FileError("open", path, errno: errno)
        }
        defer { close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw FileError("stat", path, errno: errno) }
        let size = Int(information.st_size)
        var failure: CInt = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = 0
            while count < size {
                let got = uninterrupted { Glibc.read(descriptor, buffer.baseAddress! + count, size - count) }
                if got < 0 { failure = errno }
                if got <= 0 { break }
                count += got
            }
        }
        if failure != 0 { throw FileError("read", path, errno: failure) }
        return bytes
    }

    /// Follows read(2). The zeros, a quarter of a megabyte in each namespace, are looked at piece by piece in the same few
    /// pages, and take none of the memory: a start reads the journals of all namespaces.
    public func readJournal(_ path: String) throws(FileError) -> JournalContent? {
        let descriptor = uninterrupted { open(path, O_RDONLY | O_CLOEXEC) }
        if descriptor < 0 {
            if errno == ENOENT { return nil }
            throw FileError("open", path, errno: errno)
        }
        defer { close(descriptor) }
        var content = JournalContent(bytes: [], zeros: 0)
        let failure = withUnsafeTemporaryAllocation(byteCount: 64 * 1024, alignment: 16) { buffer -> CInt in
            while true {
                let count = uninterrupted { Glibc.read(descriptor, buffer.baseAddress, buffer.count) }
                if count <= 0 { return count < 0 ? errno : 0 }
                content.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
        if failure != 0 { throw FileError("read", path, errno: failure) }
        return content
    }

    /// Follows rename(2) and fsync(2): the directory is synchronised too, or the new name could be lost.
    public func replace(_ path: String, with bytes: [UInt8]) throws(FileError) {
        let temporary = path + ".tmp"
        let descriptor = uninterrupted { open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600) }
        guard descriptor >= 0 else { throw FileError("create", temporary, errno: errno) }
        do throws(FileError) {
            defer { close(descriptor) }
            try Self.writeAll(bytes, to: descriptor, at: nil, path: temporary)
            guard uninterrupted({ fsync(descriptor) }) == 0 else { throw FileError("fsync", temporary, errno: errno) }
            try rename(temporary, to: path)
        } catch {
            unlink(temporary)
            throw error
        }
        try synchronizeDirectory(of: path)
    }

    /// Follows rename(2).
    public func rename(_ path: String, to newPath: String) throws(FileError) {
        guard uninterrupted({ Glibc.rename(path, newPath) }) == 0 else {
            throw FileError("rename", path, errno: errno)
        }
    }

    /// Follows unlink(2).
    public func remove(_ path: String) throws(FileError) {
        guard uninterrupted({ unlink(path) }) == 0 || errno == ENOENT else {
            throw FileError("remove", path, errno: errno)
        }
    }

    /// The file is filled with zeros once, so that later writes in place need no change of its metadata and fdatasync
    /// waits for the data alone.
    public func openJournal(_ path: String, size: Int) throws(FileError) -> any JournalFile {
        let descriptor = uninterrupted { open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600) }
        guard descriptor >= 0 else { throw FileError("open", path, errno: errno) }
        let file = LocalJournalFile(descriptor: descriptor, path: path)
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw FileError("stat", path, errno: errno) }
        let current = Int(information.st_size)
        if current < size {
            try Self.writeAll([UInt8](repeating: 0, count: size - current), to: descriptor, at: current, path: path)
            guard uninterrupted({ fsync(descriptor) }) == 0 else { throw FileError("fsync", path, errno: errno) }
        }
        // Also where the file is there already: what made it may have failed at this, and been told so.
        try synchronizeDirectory(of: path)
        return file
    }

    private func synchronizeDirectory(of path: String) throws(FileError) {
        guard let parent = Self.parent(path) else { return }
        let descriptor = uninterrupted { open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        guard descriptor >= 0 else { throw FileError("open", parent, errno: errno) }
        defer { close(descriptor) }
        guard uninterrupted({ fsync(descriptor) }) == 0 else { throw FileError("fsync", parent, errno: errno) }
    }

    private static func parent(_ path: String) -> String? {
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return nil }
        return String(path[..<slash])
    }

    fileprivate static func writeAll(
        _ bytes: [UInt8], to descriptor: CInt, at offset: Int?, path: String
    ) throws(FileError) {
        var written = 0
        var failure: CInt = 0
        bytes.withUnsafeBytes { buffer in
            while written < buffer.count {
                let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
                let count = uninterrupted {
                    if let offset { return pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset + written)) }
                    return Glibc.write(descriptor, rest.baseAddress, rest.count)
                }
                if count <= 0 {
                    failure = count == 0 ? EIO : errno
                    return
                }
                written += count
            }
        }
        if failure != 0 { throw FileError("write", path, errno: failure) }
    }
}

extension JournalContent {
    private static let block = 4096

    fileprivate mutating func append(_ piece: UnsafeRawBufferPointer) {
        var end = piece.count
        // Block by block first, with memcmp(3): a block is zeros if its first byte is one and each equals the next.
        while end > 0, let base = piece.baseAddress {
            let start = max(0, end - Self.block)
            guard piece[start] == 0, memcmp(base + start, base + start + 1, end - start - 1) == 0 else { break }
            end = start
        }
        while end > 0, piece[end - 1] == 0 { end -= 1 }
        if end > 0 {
            bytes.append(contentsOf: repeatElement(0, count: zeros))
            zeros = 0
            bytes.append(contentsOf: piece[..<end])
        }
        zeros += piece.count - end
    }
}

/// An open journal file; the descriptor is closed with the last reference.
private final class LocalJournalFile: JournalFile {
    private let descriptor: CInt
    private let path: String

    init(descriptor: CInt, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    deinit { close(descriptor) }

    func write(_ bytes: [UInt8], at offset: Int) throws(FileError) {
        try LocalFileSystem.writeAll(bytes, to: descriptor, at: offset, path: path)
        guard uninterrupted({ fdatasync(descriptor) }) == 0 else {
            throw FileError("fdatasync", path, errno: errno)
        }
    }
    func truncate(to size: Int) throws(FileError) {
        guard uninterrupted({ ftruncate(descriptor, off_t(size)) }) == 0 else {
            throw FileError("truncate", path, errno: errno)
        }
    }
}
