import LarderPlatform
import Glibc

/// The file system of this machine.
package struct LocalFileSystem: FileSystem {
    /// Symbolic links below this directory are not followed; nil to follow all links.
    private let root: String?

    /// - Parameter root: the directory of the agent. Symbolic links below it are refused, but the path of the directory
    ///   itself may contain some. Nil to follow all links.
    package init(beneath root: String? = nil) {
        self.root = root
    }

    package func createDirectory(_ path: String) throws(FileError) {
        if path == "/" { return }
        if try makeDirectory(path) { return }
        guard let parent = Self.parent(path) else { throw FileError("create directory", path, errno: ENOENT) }
        try createDirectory(parent)
        guard try makeDirectory(path) else { throw FileError("create directory", path, errno: ENOENT) }
    }

    /// - Returns: false if the parent does not exist
    private func makeDirectory(_ path: String) throws(FileError) -> Bool {
        do throws(FileError) {
            try inParent(of: path, "create directory", OpenBeneath.placeFlags) { parent, name in
                uninterrupted { mkdirat(parent, name, 0o700) } == 0 || errno == EEXIST
            }
            return true
        } catch {
            guard error.errno == ENOENT else { throw error }
            return false
        }
    }

    package func list(_ path: String) throws(FileError) -> [String] {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY)
        guard descriptor >= 0 else { throw failure("list", path) }
        do throws(Errno) {
            return try DirectoryListing.names(closing: descriptor).map { String(decoding: $0, as: UTF8.self) }
        } catch {
            throw FileError("list", path, errno: error.number)
        }
    }

    package func read(_ path: String) throws(FileError) -> [UInt8]? { try head(of: path, bytes: .max)?.bytes }

    package func head(of path: String, bytes: Int) throws(FileError) -> (bytes: [UInt8], size: Int)? {
        guard let (descriptor, size) = try openForReading(path) else { return nil }
        defer { close(descriptor) }
        let wanted = min(bytes, size)
        var failure: CInt = 0
        let head = [UInt8](unsafeUninitializedCapacity: wanted) { buffer, count in
            count = 0
            while count < wanted {
                let got = uninterrupted { Glibc.read(descriptor, buffer.baseAddress! + count, wanted - count) }
                if got < 0 { failure = errno }
                if got <= 0 { break }
                count += got
            }
        }
        if failure != 0 { throw FileError("read", path, errno: failure) }
        return (head, size)
    }

    /// Reads the file piece by piece into one small buffer, so that its zeros take no memory. A journal usually has 256
    /// KiB of zeros, and a start reads the journals of all namespaces.
    package func readJournal(_ path: String) throws(FileError) -> JournalContent? {
        guard let (descriptor, _) = try openForReading(path) else { return nil }
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

    /// The directory is synchronized too, because a crash could lose the new name otherwise.
    package func replace(_ path: String, with bytes: [UInt8]) throws(FileError) {
        let (directory, name) = Self.split(path)
        let temporary = path + ".tmp"
        let parent = open(directory, O_RDONLY | O_DIRECTORY)
        guard parent >= 0 else { throw failure("create", temporary) }
        defer { close(parent) }
        do throws(AtomicReplace.Failure) {
            var file = try AtomicReplace(name, temporary: name + ".tmp", in: parent, mode: 0o600)
            try file.write(bytes)
            try file.replace(synchronizing: true)
        } catch {
            throw FileError(error.step.rawValue, temporary, errno: error.error.number)
        }
        guard uninterrupted({ fsync(parent) }) == 0 else {
            throw FileError("fsync the directory of", path, errno: errno)
        }
    }

    package func rename(_ path: String, to newPath: String) throws(FileError) {
        let newName = Self.split(newPath).name
        try inParent(of: path, "rename", OpenBeneath.placeFlags) { parent, name in
            uninterrupted { renameat(parent, name, parent, newName) } == 0
        }
    }

    package func remove(_ path: String) throws(FileError) {
        do throws(FileError) {
            try inParent(of: path, "remove", OpenBeneath.placeFlags) { parent, name in
                uninterrupted { unlinkat(parent, name, 0) } == 0
            }
        } catch {
            guard error.errno == ENOENT else { throw error }
        }
    }

    /// Fills the file with zeros once, so that later writes in place change no metadata and fdatasync waits for the
    /// data alone.
    package func openJournal(_ path: String, size: Int) throws(FileError) -> any JournalFile {
        let descriptor = open(path, O_RDWR | O_CREAT | O_NONBLOCK, mode: 0o600)
        guard descriptor >= 0 else { throw failure("open", path) }
        let file = LocalJournalFile(descriptor: descriptor, path: path)
        let current = try Self.size(descriptor, path)
        if current < size {
            try Self.writeAll([UInt8](repeating: 0, count: size - current), to: descriptor, at: current, path: path)
            guard uninterrupted({ fsync(descriptor) }) == 0 else { throw FileError("fsync", path, errno: errno) }
        }
        // The directory of an existing file is synchronized, too, because the call that created the file may have
        // failed at this step.
        try synchronizeDirectory(of: path)
        return file
    }

    private func synchronizeDirectory(of path: String) throws(FileError) {
        try inParent(of: path, "fsync the directory of", O_RDONLY | O_DIRECTORY | O_CLOEXEC) { parent, _ in
            uninterrupted { fsync(parent) } == 0
        }
    }

    fileprivate static func writeAll(
        _ bytes: [UInt8], to descriptor: CInt, at offset: Int?, path: String
    ) throws(FileError) {
        do throws(Errno) {
            try LarderPlatform.writeAll(bytes, to: descriptor, at: offset)
        } catch {
            throw FileError("write", path, errno: error.number)
        }
    }
}

// MARK: Paths

extension LocalFileSystem {
    /// Opens a regular file. Does not wait for the writer of a FIFO.
    /// - Returns: the descriptor and the size of the file; nil if it does not exist
    private func openForReading(_ path: String) throws(FileError) -> (descriptor: CInt, size: Int)? {
        let descriptor = open(path, O_RDONLY | O_NONBLOCK)
        if descriptor < 0 {
            if errno == ENOENT { return nil }
            throw failure("open", path)
        }
        do throws(FileError) {
            return (descriptor, try Self.size(descriptor, path))
        } catch {
            close(descriptor)
            throw error
        }
    }

    /// The size of a file. Throws if it is not a regular file.
    fileprivate static func size(_ descriptor: CInt, _ path: String) throws(FileError) -> Int {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw FileError("stat", path, errno: errno) }
        guard information.st_mode & S_IFMT == S_IFREG else { throw FileError(notARegularFile: path) }
        return Int(information.st_size)
    }

    /// Opens a file with O_CLOEXEC. Symbolic links below the root are not followed.
    private func open(_ path: String, _ flags: CInt, mode: mode_t = 0) -> CInt {
        guard let root, let name = Self.relative(path, to: root) else {
            return uninterrupted { Glibc.open(path, flags | O_CLOEXEC, mode) }
        }
        let directory = uninterrupted { Glibc.open(root.isEmpty ? "/" : root, OpenBeneath.placeFlags) }
        guard directory >= 0 else { return -1 }
        let result = OpenBeneath.open(directory, name, flags, mode: mode)
        let number = errno
        close(directory)
        errno = number
        return result
    }

    /// Opens the directory of the file with `flags`, and calls `call` with the descriptor of the directory and the name
    /// of the file.
    /// - Parameter call: makes the system call; returns false and sets errno if it fails
    private func inParent(
        of path: String, _ operation: String, _ flags: CInt, _ call: (CInt, String) -> Bool
    ) throws(FileError) {
        let (directory, name) = Self.split(path)
        let parent = open(directory, flags)
        guard parent >= 0 else { throw failure(operation, path) }
        defer { close(parent) }
        guard call(parent, name) else { throw failure(operation, path) }
    }

    /// The error of the last system call, from errno. If a symbolic link is the cause, the error names the link.
    private func failure(_ operation: String, _ path: String) -> FileError {
        let number = errno
        guard number == ELOOP || number == ENOTDIR, let root, let name = Self.relative(path, to: root) else {
            return FileError(operation, path, errno: number)
        }
        var place = root
        for step in name.split(separator: "/") {
            place += "/" + step
            var information = stat()
            guard lstat(place, &information) == 0 else { break }
            guard information.st_mode & S_IFMT == S_IFLNK else { continue }
            return FileError(
                operation, path, errno: number,
                reason: "\(place) is a symbolic link, and links below \(root) are not followed; "
                    + "replace it with its target")
        }
        return FileError(operation, path, errno: number)
    }

    /// The part of a path below a directory; nil for the directory itself and for a path elsewhere.
    private static func relative(_ path: String, to root: String) -> String? {
        guard path.hasPrefix(root + "/") else { return nil }
        let name = path.utf8.dropFirst(root.utf8.count + 1)
        return name.isEmpty ? nil : String(name)
    }

    /// Splits a path into directory and name.
    private static func split(_ path: String) -> (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let directory = slash == path.startIndex ? "/" : String(path[..<slash])
        return (directory, String(path[path.index(after: slash)...]))
    }

    private static func parent(_ path: String) -> String? {
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return nil }
        return String(path[..<slash])
    }
}

extension JournalContent {
    private static let block = 4096

    fileprivate mutating func append(_ piece: UnsafeRawBufferPointer) {
        var end = piece.count
        // Whole blocks are checked first, with memcmp(3): a block has only zeros if its first byte is zero and each
        // byte equals the next.
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

/// An open journal file. The descriptor is closed with the last reference.
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
