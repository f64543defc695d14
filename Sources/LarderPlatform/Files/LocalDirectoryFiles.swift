import Glibc
internal import SystemPackage

/// The files below a directory of this machine.
package final class LocalDirectoryFiles: DirectoryFiles, FileAccess {
    private let root: CInt
    package let blockBytes: Int

    /// Opens the directory, and creates it with mode 0750 if it does not exist. Its path may contain symbolic links,
    /// because the administrator chooses it.
    package init(path: String) throws(FileError) {
        // Set the mode regardless of the umask: clients in the agent's group reach the files through this directory.
        if uninterrupted({ mkdir(path, 0o750) }) != 0 ? errno != EEXIST : uninterrupted({ chmod(path, 0o750) }) != 0 {
            throw FileError("make", path, errno: errno)
        }
        let root = uninterrupted { Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        self.root = root
        guard root >= 0 else {
            blockBytes = 0
            throw FileError("open", path, errno: errno)
        }
        var information = statvfs()
        let isKnown = uninterrupted { fstatvfs(root, &information) } == 0
        // Network file systems report their transfer size as block size. A value below 512 or above 65,536 is therefore
        // replaced by 4096.
        blockBytes = isKnown && (512...65_536).contains(information.f_frsize) ? Int(information.f_frsize) : 4096
    }

    deinit { close(root) }

    package func createDirectory(_ name: String) throws(FileError) -> Bool {
        var isNew = false
        try inParent(of: name, "make") { parent, last in
            guard uninterrupted({ mkdirat(parent, last, 0o750) }) == 0 else { return errno == EEXIST }
            isNew = true
            // Set the mode regardless of the umask: clients in the agent's group read the files in this directory.
            return uninterrupted { fchmodat(parent, last, 0o750, 0) } == 0
        }
        return isNew
    }

    package func create(_ name: String) throws(FileError) -> any DirectoryFile {
        LocalDirectoryFile(
            try descriptor(of: name, "create", O_WRONLY | O_CREAT | O_EXCL | O_APPEND, mode: 0o600), name)
    }

    package func allocate(_ name: String, _ bytes: Int) throws(FileError) {
        let file = try descriptor(of: name, "make", O_WRONLY | O_CREAT, mode: 0o600).rawValue
        defer { close(file) }
        // posix_fallocate(3) returns the error number and does not set errno.
        var number: CInt
        repeat { number = posix_fallocate(file, 0, off_t(bytes)) } while number == EINTR
        guard number != 0 else { return }
        _ = try? remove(name)
        throw FileError("allocate", name, errno: number)
    }

    package func open(_ name: String) throws(FileError) -> (any DirectoryFile)? {
        do throws(FileError) {
            return LocalDirectoryFile(try descriptor(of: name, "open", O_RDONLY), name)
        } catch {
            if error.errno == ENOENT { return nil }
            throw error
        }
    }

    package func hasFile(_ name: UnsafePointer<CChar>) -> Bool {
        var information = stat()
        return uninterrupted { fstatat(root, name, &information, AT_SYMLINK_NOFOLLOW) } == 0 || errno != ENOENT
    }

    /// Links the new name and unlinks the old one, because link(2), unlike rename(2), never replaces a file. If the
    /// process is killed in between, the file has both names, and a sweep removes the old one.
    package func publish(_ name: String, as newName: String) throws(FileError) -> Bool {
        let (oldParent, oldName) = try parent(of: name, "publish")
        defer { close(oldParent) }
        let (newParent, lastName) = try parent(of: newName, "publish")
        defer { close(newParent) }
        guard uninterrupted({ linkat(oldParent, oldName, newParent, lastName, 0) }) == 0 else {
            if errno == EEXIST { return false }
            throw failure("publish", newName)
        }
        guard uninterrupted({ unlinkat(oldParent, oldName, 0) }) == 0 else { throw failure("remove", name) }
        return true
    }

    package func replace(_ name: String, as newName: String) throws(FileError) {
        let (oldParent, oldName) = try parent(of: name, "rename")
        defer { close(oldParent) }
        let (newParent, lastName) = try parent(of: newName, "rename")
        defer { close(newParent) }
        guard uninterrupted({ renameat(oldParent, oldName, newParent, lastName) }) == 0 else {
            throw failure("rename", newName)
        }
    }

    package func remove(_ name: String) throws(FileError) -> Bool { try unlink(name) }

    package func removeDirectory(_ name: String) throws(FileError) -> Bool {
        do throws(FileError) {
            return try unlink(name, AT_REMOVEDIR)
        } catch {
            guard error.errno == ENOTEMPTY || error.errno == EEXIST else { throw error }
            return false
        }
    }

    package func synchronizeDirectory(_ name: String) throws(FileError) {
        let directory = try descriptor(of: name, "open", O_RDONLY | O_DIRECTORY).rawValue
        defer { close(directory) }
        guard uninterrupted({ fsync(directory) }) == 0 else { throw failure("fsync", name) }
    }

    package func list(_ name: String) throws(FileError) -> [String] {
        do throws(FileError) {
            return try names(in: name, "open")
        } catch {
            guard error.errno == ENOENT, error.operation == "open" else { throw error }
            return []
        }
    }

    package func allocatedBytes(_ name: String) throws(FileError) -> Int {
        var information = stat()
        do throws(FileError) {
            try inParent(of: name, "stat") { parent, last in
                uninterrupted { fstatat(parent, last, &information, AT_SYMLINK_NOFOLLOW) } == 0
            }
        } catch {
            guard error.errno == ENOENT else { throw error }
            return 0
        }
        return Int(information.st_blocks) * 512
    }

    package func freeBytes() throws(FileError) -> Int {
        var information = statvfs()
        guard uninterrupted({ fstatvfs(root, &information) }) == 0 else { throw failure("measure", "the disk") }
        let (bytes, overflows) = Int(clamping: information.f_bavail).multipliedReportingOverflow(
            by: Int(information.f_frsize))
        return overflows ? .max : bytes
    }

    func open(_ name: String, _ flags: CInt, mode: mode_t) -> CInt {
        OpenBeneath.open(root, name, flags, mode: mode)
    }

    func failure(_ operation: String, _ name: String) -> FileError { FileError(operation, name, errno: errno) }
}

private final class LocalDirectoryFile: DirectoryFile {
    private let file: FileDescriptor
    private let name: String

    init(_ file: FileDescriptor, _ name: String) { (self.file, self.name) = (file, name) }

    deinit { close(file.rawValue) }

    var descriptor: CInt? { file.rawValue }

    func size() throws(FileError) -> Int { Int(try status().size) }

    func allocatedBytes() throws(FileError) -> Int { Int(try status().blocksAllocated) * 512 }

    private func status() throws(FileError) -> Stat {
        do throws(Errno) { return try file.stat() } catch { throw failure("stat", error) }
    }

    func append(_ bytes: [UInt8]) throws(FileError) {
        do throws(Errno) { try writeAll(bytes, to: file.rawValue) } catch { throw failure("write", error) }
    }

    func read(at offset: Int, count: Int) throws(FileError) -> [UInt8] {
        do throws(Errno) {
            return try withErrno {
                try [UInt8](unsafeUninitializedCapacity: count) { buffer, length in
                    length = try file.read(
                        fromAbsoluteOffset: Int64(offset), into: UnsafeMutableRawBufferPointer(buffer))
                }
            }
        } catch {
            throw failure("read", error)
        }
    }

    func seal() throws(FileError) {
        guard uninterrupted({ fchmod(file.rawValue, 0o440) }) == 0 else { throw failure("protect", .current) }
        // Frees the blocks that are allocated beyond the end of the file. XFS allocates up to twice the size for a
        // growing file, and frees the excess only when the file is closed.
        let size = try status().size
        do throws(Errno) { try withErrno { try file.resize(to: size) } } catch { throw failure("truncate", error) }
        guard uninterrupted({ fsync(file.rawValue) }) == 0 else { throw failure("fsync", .current) }
    }

    private func failure(_ operation: String, _ error: Errno) -> FileError {
        FileError(operation, name, errno: error.rawValue)
    }
}
