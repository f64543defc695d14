import LarderConfig
import LarderPlatform
import LarderUpstream
import Glibc
import LarderConfigModel

/// The open and locked directory of the plain copies (``SnapshotExporter``). Its methods block while they wait for the
/// disk.
///
/// All names are resolved relative to the open directory, which belongs to this process's user and is not a symbolic
/// link. So even if other users may write to its parent directory, as in /tmp, they cannot redirect a file to another
/// place.
final class ExportDirectory: Sendable {
    private let lock: FileLock
    private let path: String
    /// The group of the directory and of its copies.
    let group: gid_t

    /// Opens the directory. Creates it if it does not exist.
    /// - Parameters:
    ///   - mode: the maximum permission bits of a copy. Users who may read such a copy may also list and enter the
    ///     directory.
    ///   - group: the group of the directory and of its copies
    /// - Throws: ``ServerError`` if the directory cannot be used or another agent uses it
    init(path: String, mode: UInt32, group: gid_t) throws(ServerError) {
        (self.path, self.group) = (path, group)
        guard uninterrupted({ mkdir(path, 0o700) }) == 0 || errno == EEXIST else {
            throw ServerError("create directory", path)
        }
        lock = try Self.open(path)
        // Clients that may read the copies may list and enter the directory.
        let readers = mode & 0o444
        try setAccess(descriptor, 0o700 | readers | readers >> 2, path)
    }

    private var descriptor: CInt { lock.descriptor }

    /// Replaces the copy of a namespace in one step.
    ///
    /// The copy is not synchronized to disk. That is not needed: the directory of a socket rarely survives a restart of
    /// the system, and the agent compares all copies with the snapshots when it starts.
    /// - Parameter mode: the permission bits of the copy
    func write(_ bytes: [UInt8], of namespace: String, mode: UInt32) throws(ServerError) {
        let (name, temporary) = (Self.name(of: namespace), Self.temporaryName(of: namespace))
        let place = "\(path)/\(temporary)"
        var file: AtomicReplace
        do throws(AtomicReplace.Failure) {
            file = try AtomicReplace(name, temporary: temporary, in: descriptor, mode: 0o600)
        } catch {
            throw ServerError(error.step.rawValue, place, error.error)
        }
        try setAccess(file.descriptor, mode, place)
        do throws(AtomicReplace.Failure) {
            try file.write(bytes)
            try file.replace(synchronizing: false)
        } catch {
            throw ServerError(error.step.rawValue, place, error.error)
        }
    }

    /// Whether the copy of a namespace is up to date: it has this content, mode, owner and group, and no other hard
    /// links. This check saves most writes when an agent restarts.
    func holds(_ bytes: [UInt8], of namespace: String, mode: UInt32) -> Bool {
        // O_NONBLOCK: a FIFO at this name must not block the call.
        let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
        let file = uninterrupted { openat(descriptor, Self.name(of: namespace), flags) }
        guard file >= 0 else { return false }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode == S_IFREG | mode, status.st_uid == geteuid(),
            status.st_gid == group, status.st_nlink == 1, status.st_size == bytes.count
        else { return false }
        let content = [UInt8](unsafeUninitializedCapacity: bytes.count) { buffer, count in
            count = max(0, uninterrupted { read(file, buffer.baseAddress, bytes.count) })
        }
        return content == bytes
    }

    /// Removes permission bits beyond `mode` from the copy of a namespace, if it exists. This needs no disk space.
    /// Removes the copy if its mode cannot be changed or it is not a regular file.
    /// - Parameter mode: the permitted bits
    func restrictMode(_ namespace: String, to mode: UInt32) throws(ServerError) {
        let name = Self.name(of: namespace)
        var status = stat()
        guard fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return }
        if status.st_mode & S_IFMT == S_IFREG {
            // If the copy belongs to another group than `group`, its group bits are removed, because they permit access
            // by that other group.
            let restricted = status.st_mode & 0o777 & (status.st_gid == group ? mode : mode & ~0o070)
            if restricted == status.st_mode & 0o777 || fchmodat(descriptor, name, restricted, 0) == 0 { return }
        }
        try remove(namespace)
    }

    /// Removes the copy of a namespace, if it exists.
    func remove(_ namespace: String) throws(ServerError) {
        guard uninterrupted({ unlinkat(descriptor, Self.name(of: namespace), 0) }) == 0 || errno == ENOENT else {
            throw ServerError("remove", "\(path)/\(Self.name(of: namespace))")
        }
    }

    /// Removes files of earlier agents: copies of namespaces that no longer exist, and incomplete files.
    func removeStale(keeping namespaces: Set<String>) {
        for name in Self.names(in: path) {
            guard let namespace = Self.namespace(of: name) else { continue }
            if name.hasPrefix(".") || !namespaces.contains(namespace) { unlinkat(descriptor, name, 0) }
        }
    }

    /// Removes all copies in a directory, and the directory if it is then empty.
    static func clear(_ path: String) {
        guard let lock = try? open(path) else { return }
        withExtendedLifetime(lock) {
            for name in names(in: path) where namespace(of: name) != nil {
                unlinkat(lock.descriptor, name, 0)
            }
            rmdir(path)
        }
    }

    /// The names in a directory; empty if it cannot be read. If `path` is a symbolic link, it is not followed.
    private static func names(in path: String) -> [String] {
        let parent = path.lastIndex(of: "/").map { String(path[..<$0]) }
        return (try? LocalFileSystem(beneath: parent).list(path)) ?? []
    }

    /// The file name of a namespace's copy.
    static func name(of namespace: String) -> String { namespace + ".json" }

    private static func temporaryName(of namespace: String) -> String { ".\(namespace).json.tmp" }

    /// The namespace to which a file name belongs, as a copy or as the temporary file of one; nil for other files.
    private static func namespace(of name: String) -> String? {
        let isTemporary = name.hasPrefix(".") && name.hasSuffix(".json.tmp")
        guard isTemporary || name.hasSuffix(".json") else { return nil }
        let namespace = String(isTemporary ? name.dropFirst().dropLast(9) : name.dropLast(5))
        return NamespaceName.isValid(namespace) ? namespace : nil
    }

    private static func open(_ path: String) throws(ServerError) -> FileLock {
        let descriptor = uninterrupted { Glibc.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) }
        guard descriptor >= 0 else { throw ServerError("open", path) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_uid == geteuid() else {
            close(descriptor)
            throw ServerError(
                "\(path) belongs to user \(status.st_uid); remove it, or move the socket to another directory")
        }
        do throws(FileLock.Failure) {
            return try FileLock(descriptor)
        } catch {
            if case .failed(let error) = error { throw ServerError("lock", path, error) }
            throw ServerError(
                "another agent uses \(path) for its plain copies; put the sockets into separate directories, or set "
                    + "current.enabled to false for one of the agents")
        }
    }

    private func setAccess(_ file: CInt, _ mode: UInt32, _ path: String) throws(ServerError) {
        var status = stat()
        guard fstat(file, &status) == 0 else { throw ServerError("stat", path) }
        if status.st_gid != group, fchown(file, uid_t.max, group) != 0 {
            throw ServerError("set the group to \(group) on", path)
        }
        guard uninterrupted({ fchmod(file, mode) }) == 0 else { throw ServerError("change the mode of", path) }
    }
}
