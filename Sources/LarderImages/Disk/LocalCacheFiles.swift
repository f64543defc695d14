internal import LarderPlatform
internal import LarderUpstream
import Glibc

/// The cache directory on a real file system.
final class LocalCacheFiles: CacheFiles {
    private let root: CInt
    let blockBytes: Int

    /// Opens the directory, and creates it with mode 0750 if it does not exist. Its path may contain symbolic links,
    /// because the administrator chooses it.
    init(path: String) throws(CacheFileError) {
        // Set the mode regardless of the umask: clients in the agent's group reach the files through this directory.
        if uninterrupted({ mkdir(path, 0o750) }) != 0 ? errno != EEXIST : uninterrupted({ chmod(path, 0o750) }) != 0 {
            throw CacheFileError(operation: "make", name: path, errno: errno)
        }
        let root = uninterrupted { Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        self.root = root
        guard root >= 0 else {
            blockBytes = 0
            throw CacheFileError(operation: "open", name: path, errno: errno)
        }
        var information = statvfs()
        let isKnown = uninterrupted { fstatvfs(root, &information) } == 0
        // Network file systems report their transfer size as block size. A value below 512 or above 65,536 is therefore
        // replaced by 4096.
        blockBytes = isKnown && (512...65_536).contains(information.f_frsize) ? Int(information.f_frsize) : 4096
    }

    deinit { close(root) }

    func createDirectory(_ name: String) throws(CacheFileError) -> Bool {
        var isNew = false
        try inParent(of: name, "make") { parent, last in
            guard uninterrupted({ mkdirat(parent, last, 0o750) }) == 0 else { return errno == EEXIST }
            isNew = true
            // Set the mode regardless of the umask: clients in the agent's group read the files in this directory.
            return uninterrupted { fchmodat(parent, last, 0o750, 0) } == 0
        }
        return isNew
    }

    func create(_ name: String) throws(CacheFileError) -> any CacheFile {
        LocalCacheFile(try open(name, "create", O_WRONLY | O_CREAT | O_EXCL | O_APPEND, mode: 0o600), name)
    }

    func allocate(_ name: String, _ bytes: Int) throws(CacheFileError) {
        let file = try open(name, "make", O_WRONLY | O_CREAT | O_NOFOLLOW, mode: 0o600)
        defer { close(file) }
        // posix_fallocate(3) returns the error number and does not set errno.
        var number: CInt
        repeat { number = posix_fallocate(file, 0, off_t(bytes)) } while number == EINTR
        guard number != 0 else { return }
        _ = try? remove(name)
        throw CacheFileError(operation: "allocate", name: name, errno: number)
    }

    func open(_ name: String) throws(CacheFileError) -> (any CacheFile)? {
        do throws(CacheFileError) {
            return LocalCacheFile(try open(name, "open", O_RDONLY | O_NOFOLLOW), name)
        } catch {
            if error.errno == ENOENT { return nil }
            throw error
        }
    }

    func hasFile(_ name: UnsafePointer<CChar>) -> Bool {
        var information = stat()
        return uninterrupted { fstatat(root, name, &information, AT_SYMLINK_NOFOLLOW) } == 0 || errno != ENOENT
    }

    /// Links the new name and unlinks the old one, because link(2), unlike rename(2), never replaces a file. If the
    /// process is killed in between, the file has both names, and a sweep removes the old one.
    func publish(_ name: String, as newName: String) throws(CacheFileError) -> Bool {
        let (oldParent, oldName) = try parent(of: name, "publish")
        defer { close(oldParent) }
        let (newParent, lastName) = try parent(of: newName, "publish")
        defer { close(newParent) }
        guard uninterrupted({ linkat(oldParent, oldName, newParent, lastName, 0) }) == 0 else {
            if errno == EEXIST { return false }
            throw CacheFileError(operation: "publish", name: newName, errno: errno)
        }
        guard uninterrupted({ unlinkat(oldParent, oldName, 0) }) == 0 else {
            throw CacheFileError(operation: "remove", name: name, errno: errno)
        }
        return true
    }

    func replace(_ name: String, as newName: String) throws(CacheFileError) {
        let (oldParent, oldName) = try parent(of: name, "rename")
        defer { close(oldParent) }
        let (newParent, lastName) = try parent(of: newName, "rename")
        defer { close(newParent) }
        guard uninterrupted({ renameat(oldParent, oldName, newParent, lastName) }) == 0 else {
            throw CacheFileError(operation: "rename", name: newName, errno: errno)
        }
    }

    func remove(_ name: String) throws(CacheFileError) -> Bool {
        var existed = true
        do throws(CacheFileError) {
            try inParent(of: name, "remove") { parent, last in uninterrupted { unlinkat(parent, last, 0) } == 0 }
        } catch {
            guard error.errno == ENOENT else { throw error }
            existed = false
        }
        return existed
    }

    func removeDirectory(_ name: String) throws(CacheFileError) -> Bool {
        do throws(CacheFileError) {
            try inParent(of: name, "remove") { parent, last in
                uninterrupted { unlinkat(parent, last, AT_REMOVEDIR) } == 0
            }
            return true
        } catch {
            guard error.errno == ENOENT || error.errno == ENOTEMPTY || error.errno == EEXIST else { throw error }
            return false
        }
    }

    func synchronizeDirectory(_ name: String) throws(CacheFileError) {
        let directory = try open(name, "open", O_RDONLY | O_DIRECTORY)
        defer { close(directory) }
        guard uninterrupted({ fsync(directory) }) == 0 else {
            throw CacheFileError(operation: "fsync", name: name, errno: errno)
        }
    }

    func list(_ name: String) throws(CacheFileError) -> [String] {
        let directory: CInt
        do throws(CacheFileError) {
            directory = try open(name, "open", O_RDONLY | O_DIRECTORY)
        } catch {
            if error.errno == ENOENT { return [] }
            throw error
        }
        do throws(Errno) {
            return try DirectoryListing.names(closing: directory).map { String(decoding: $0, as: UTF8.self) }
        } catch {
            throw CacheFileError(operation: "list", name: name, errno: error.number)
        }
    }

    func allocatedBytes(_ name: String) throws(CacheFileError) -> Int {
        var information = stat()
        do throws(CacheFileError) {
            try inParent(of: name, "stat") { parent, last in
                uninterrupted { fstatat(parent, last, &information, AT_SYMLINK_NOFOLLOW) } == 0
            }
        } catch {
            guard error.errno == ENOENT else { throw error }
            return 0
        }
        return Int(information.st_blocks) * 512
    }

    func freeBytes() throws(CacheFileError) -> Int {
        var information = statvfs()
        guard uninterrupted({ fstatvfs(root, &information) }) == 0 else {
            throw CacheFileError(operation: "measure", name: "the disk", errno: errno)
        }
        let (bytes, overflows) = Int(clamping: information.f_bavail).multipliedReportingOverflow(
            by: Int(information.f_frsize))
        return overflows ? .max : bytes
    }

    private func open(_ name: String, _ operation: String, _ flags: CInt, mode: mode_t = 0) throws(CacheFileError)
        -> CInt
    {
        let result = OpenBeneath.open(root, name, flags, mode: mode)
        guard result >= 0 else { throw CacheFileError(operation: operation, name: name, errno: errno) }
        return result
    }

    /// Opens the parent directory of a file, and returns it with the file's last name component. The *at calls cannot
    /// restrict name resolution, so they are only given names without a slash.
    private func parent(of name: String, _ operation: String) throws(CacheFileError) -> (CInt, String) {
        guard let slash = name.lastIndex(of: "/") else {
            return (try open(".", operation, O_RDONLY | O_DIRECTORY), name)
        }
        let directory = try open(String(name[..<slash]), operation, O_RDONLY | O_DIRECTORY)
        return (directory, String(name[name.index(after: slash)...]))
    }

    private func inParent(
        of name: String, _ operation: String, _ call: (CInt, String) -> Bool
    ) throws(CacheFileError) {
        let (directory, last) = try parent(of: name, operation)
        defer { close(directory) }
        guard call(directory, last) else { throw CacheFileError(operation: operation, name: name, errno: errno) }
    }
}

private final class LocalCacheFile: CacheFile {
    private let number: CInt
    private let name: String

    init(_ number: CInt, _ name: String) { (self.number, self.name) = (number, name) }

    deinit { close(number) }

    var descriptor: CInt? { number }

    func size() throws(CacheFileError) -> Int {
        var information = stat()
        guard fstat(number, &information) == 0 else { throw failure("stat") }
        return Int(information.st_size)
    }

    func allocatedBytes() throws(CacheFileError) -> Int {
        var information = stat()
        guard fstat(number, &information) == 0 else { throw failure("stat") }
        return Int(information.st_blocks) * 512
    }

    func append(_ bytes: [UInt8]) throws(CacheFileError) {
        do throws(Errno) {
            try writeAll(bytes, to: number)
        } catch {
            throw failure("write", error.number)
        }
    }

    func read(at offset: Int, count: Int) throws(CacheFileError) -> [UInt8] {
        var result = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, length in
            result = uninterrupted { pread(number, buffer.baseAddress, count, off_t(offset)) }
            length = max(0, result)
        }
        guard result >= 0 else { throw failure("read") }
        return bytes
    }

    func seal() throws(CacheFileError) {
        guard uninterrupted({ fchmod(number, 0o440) }) == 0 else { throw failure("protect") }
        // Frees the blocks that are allocated beyond the end of the file. XFS allocates up to twice the size for a
        // growing file, and frees the excess only when the file is closed.
        let size = try size()
        guard uninterrupted({ ftruncate(number, off_t(size)) }) == 0 else { throw failure("truncate") }
        guard uninterrupted({ fsync(number) }) == 0 else { throw failure("fsync") }
    }

    private func failure(_ operation: String, _ number: CInt = errno) -> CacheFileError {
        CacheFileError(operation: operation, name: name, errno: number)
    }
}
