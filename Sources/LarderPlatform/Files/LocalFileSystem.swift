import Glibc
internal import SystemPackage

/// The file system of this machine.
package struct LocalFileSystem: FileSystem, FileAccess {
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
            try inParent(of: path, "create directory") { parent, name in
                uninterrupted { mkdirat(parent, name, 0o700) } == 0 || errno == EEXIST
            }
            return true
        } catch {
            guard error.errno == ENOENT else { throw error }
            return false
        }
    }

    package func list(_ path: String) throws(FileError) -> [String] { try names(in: path, "list") }

    package func read(_ path: String) throws(FileError) -> [UInt8]? { try head(of: path, bytes: .max)?.bytes }

    package func head(of path: String, bytes: Int) throws(FileError) -> (bytes: [UInt8], size: Int)? {
        guard let (file, size) = try openForReading(path) else { return nil }
        defer { close(file.rawValue) }
        let wanted = min(bytes, size)
        do throws(Errno) {
            let head = try withErrno {
                try [UInt8](unsafeUninitializedCapacity: wanted) { buffer, count in
                    let bytes = UnsafeMutableRawBufferPointer(buffer)
                    count = 0
                    while count < wanted {
                        let got = try file.read(into: UnsafeMutableRawBufferPointer(rebasing: bytes[count...]))
                        if got == 0 { break }
                        count += got
                    }
                }
            }
            return (head, size)
        } catch {
            throw FileError("read", path, errno: error.rawValue)
        }
    }

    /// Reads the file piece by piece into one small buffer, so that its zeros take no memory. A journal usually has 256
    /// KiB of zeros, and a start reads the journals of all namespaces.
    package func readJournal(_ path: String) throws(FileError) -> JournalContent? {
        guard let (file, _) = try openForReading(path) else { return nil }
        defer { close(file.rawValue) }
        var content = JournalContent(bytes: [], zeros: 0)
        do throws(Errno) {
            try withErrno {
                try withUnsafeTemporaryAllocation(byteCount: 64 * 1024, alignment: 16) { buffer in
                    while case let count = try file.read(into: buffer), count > 0 {
                        content.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                    }
                }
            }
        } catch {
            throw FileError("read", path, errno: error.rawValue)
        }
        return content
    }

    /// The directory is synchronized too, because a crash could lose the new name otherwise.
    package func replace(_ path: String, with bytes: [UInt8]) throws(FileError) {
        let (directory, name) = splitPath(path)
        let temporary = path + ".tmp"
        let parent = open(directory, O_RDONLY | O_DIRECTORY, mode: 0)
        guard parent >= 0 else { throw failure("create", temporary) }
        defer { close(parent) }
        do throws(AtomicReplace.Failure) {
            var file = try AtomicReplace(name, temporary: name + ".tmp", in: parent, mode: 0o600)
            try file.write(bytes)
            try file.replace(synchronizing: true)
        } catch {
            throw FileError(error.step.rawValue, temporary, errno: error.error.rawValue)
        }
        guard uninterrupted({ fsync(parent) }) == 0 else {
            throw FileError("fsync the directory of", path, errno: errno)
        }
    }

    package func rename(_ path: String, to newPath: String) throws(FileError) {
        let newName = splitPath(newPath).name
        try inParent(of: path, "rename") { parent, name in
            uninterrupted { renameat(parent, name, parent, newName) } == 0
        }
    }

    package func remove(_ path: String) throws(FileError) { _ = try unlink(path) }

    /// Fills the file with zeros once, so that later writes in place change no metadata and fdatasync waits for the
    /// data alone.
    package func openJournal(_ path: String, size: Int) throws(FileError) -> any JournalFile {
        let file = LocalJournalFile(
            try descriptor(of: path, "open", O_RDWR | O_CREAT | O_NONBLOCK, mode: 0o600), path: path)
        let current = try Self.size(file.descriptor, path)
        if current < size {
            try file.put([UInt8](repeating: 0, count: size - current), at: current)
            guard uninterrupted({ fsync(file.descriptor.rawValue) }) == 0 else {
                throw FileError("fsync", path, errno: errno)
            }
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
}

// MARK: Paths

extension LocalFileSystem {
    /// Opens a regular file. Does not wait for the writer of a FIFO.
    /// - Returns: the descriptor and the size of the file; nil if it does not exist
    private func openForReading(_ path: String) throws(FileError) -> (file: FileDescriptor, size: Int)? {
        let file: FileDescriptor
        do throws(FileError) {
            file = try descriptor(of: path, "open", O_RDONLY | O_NONBLOCK)
        } catch {
            guard error.errno == ENOENT else { throw error }
            return nil
        }
        do throws(FileError) {
            return (file, try Self.size(file, path))
        } catch {
            close(file.rawValue)
            throw error
        }
    }

    /// The size of a file. Throws if it is not a regular file.
    private static func size(_ file: FileDescriptor, _ path: String) throws(FileError) -> Int {
        let status: Stat
        do throws(Errno) {
            status = try file.stat()
        } catch {
            throw FileError("stat", path, errno: error.rawValue)
        }
        guard status.type == .regular else { throw FileError(notARegularFile: path) }
        return Int(status.size)
    }

    /// Opens a file with O_CLOEXEC. Symbolic links below the root are not followed.
    func open(_ path: String, _ flags: CInt, mode: mode_t) -> CInt {
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

    /// The error of the last system call, from errno. If a symbolic link is the cause, the error names the link.
    func failure(_ operation: String, _ path: String) -> FileError {
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
    let descriptor: FileDescriptor
    private let path: String

    init(_ descriptor: FileDescriptor, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    deinit { close(descriptor.rawValue) }

    func write(_ bytes: [UInt8], at offset: Int) throws(FileError) {
        try put(bytes, at: offset)
        guard uninterrupted({ fdatasync(descriptor.rawValue) }) == 0 else {
            throw FileError("fdatasync", path, errno: errno)
        }
    }

    func truncate(to size: Int) throws(FileError) {
        do throws(Errno) {
            try withErrno { try descriptor.resize(to: Int64(size)) }
        } catch {
            throw FileError("truncate", path, errno: error.rawValue)
        }
    }

    /// Writes bytes at an offset without waiting for the disk.
    func put(_ bytes: [UInt8], at offset: Int) throws(FileError) {
        do throws(Errno) {
            try writeAll(bytes, to: descriptor.rawValue, at: offset)
        } catch {
            throw FileError("write", path, errno: error.rawValue)
        }
    }
}
