import LarderConfig
import LarderConfigStorage
import LarderPlatform
import LarderUpstream
import Glibc

/// The directory of the plain copies, open and locked. Its functions wait for the disk.
///
/// Everything is named relative to the open directory, which is this process's own and no symbolic link: in a directory
/// that others may write to, such as /tmp, nobody can have a file put elsewhere.
final class ExportDirectory: Sendable {
    private let lock: FileLock
    private let path: String
    /// The group of the directory and of the copies.
    let group: gid_t

    /// Opens the directory, making it where it is not there yet.
    /// - Parameters:
    ///   - mode: the most permission bits that a copy may have; who may read such a one may also enter the directory.
    ///   - group: the group of both.
    /// - Throws: ``ExportError`` where it cannot be used, or another agent uses it.
    init(path: String, mode: UInt32, group: gid_t) throws(ExportError) {
        (self.path, self.group) = (path, group)
        guard uninterrupted({ mkdir(path, 0o700) }) == 0 || errno == EEXIST else {
            throw ExportError("make directory", path)
        }
        lock = try Self.open(path)
        // Clients that may read the copies may list and enter their directory.
        let readers = mode & 0o444
        try give(descriptor, 0o700 | readers | readers >> 2, path)
    }

    private var descriptor: CInt { lock.descriptor }

    /// Replaces the copy of a namespace in one step.
    /// - Parameter mode: its permission bits.
    ///
    /// It is not synchronised with the disk: the directory of a socket hardly outlives the system's start, and the agent
    /// compares every copy when it starts.
    func write(_ bytes: [UInt8], of namespace: String, mode: UInt32) throws(ExportError) {
        let (name, temporary) = (Self.name(of: namespace), Self.temporaryName(of: namespace))
        let place = "\(path)/\(temporary)"
        var file: AtomicReplace
        do throws(AtomicReplace.Failure) {
            file = try AtomicReplace(name, temporary: temporary, in: descriptor, mode: 0o600)
        } catch {
            throw ExportError(error, place)
        }
        try give(file.descriptor, mode, place)
        do throws(AtomicReplace.Failure) {
            try file.write(bytes)
            try file.replace(synchronizing: false)
        } catch {
            throw ExportError(error, place)
        }
    }

    /// Whether the copy of a namespace is right already, as most are when an agent starts again: this very one, with this
    /// mode, and of no other name or owner, so that what it says stays what it is.
    func holds(_ bytes: [UInt8], of namespace: String, mode: UInt32) -> Bool {
        // Not to be held up by a pipe that somebody put there.
        let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
        let file = uninterrupted { openat(descriptor, Self.name(of: namespace), flags) }
        guard file >= 0 else { return false }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, status.st_mode == S_IFREG | mode, status.st_uid == geteuid(),
            status.st_gid == group, status.st_nlink == 1, status.st_size == bytes.count
        else { return false }
        let held = [UInt8](unsafeUninitializedCapacity: bytes.count) { buffer, count in
            count = max(0, uninterrupted { read(file, buffer.baseAddress, bytes.count) })
        }
        return held == bytes
    }

    /// Takes from the copy of a namespace, if there is one, what its permission bits have beyond others. It takes no room on
    /// the disk. A copy that keeps its bits is removed, and so is what is no file.
    /// - Parameter mode: the permission bits that it may have.
    func narrow(_ namespace: String, to mode: UInt32) throws(ExportError) {
        let name = Self.name(of: namespace)
        var status = stat()
        guard fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return }
        if status.st_mode & S_IFMT == S_IFREG {
            // The bits of a group are those of the copy's own group, which may have been another one.
            let narrowed = status.st_mode & 0o777 & (status.st_gid == group ? mode : mode & ~0o070)
            if narrowed == status.st_mode & 0o777 || fchmodat(descriptor, name, narrowed, 0) == 0 { return }
        }
        try remove(namespace)
    }

    /// Removes the copy of a namespace, if there is one.
    func remove(_ namespace: String) throws(ExportError) {
        guard uninterrupted({ unlinkat(descriptor, Self.name(of: namespace), 0) }) == 0 || errno == ENOENT else {
            throw ExportError("remove", "\(path)/\(Self.name(of: namespace))")
        }
    }

    /// Removes what earlier agents left: copies of namespaces that are none any more, and files that were not finished.
    func removeStale(keeping namespaces: Set<String>) {
        for name in Self.names(in: path) {
            guard let namespace = Self.namespace(of: name) else { continue }
            if name.hasPrefix(".") || !namespaces.contains(namespace) { unlinkat(descriptor, name, 0) }
        }
    }

    /// Removes all copies in a directory, and the directory if nothing else is in it.
    static func clear(_ path: String) {
        guard let lock = try? open(path) else { return }
        withExtendedLifetime(lock) {
            for name in names(in: path) where namespace(of: name) != nil {
                unlinkat(lock.descriptor, name, 0)
            }
            rmdir(path)
        }
    }

    /// The names in the directory, which is not followed if it is a symbolic link.
    private static func names(in path: String) -> [String] {
        let parent = path.lastIndex(of: "/").map { String(path[..<$0]) }
        return (try? LocalFileSystem(beneath: parent).list(path)) ?? []
    }

    /// The file's name of a namespace's copy.
    static func name(of namespace: String) -> String { namespace + ".json" }

    private static func temporaryName(of namespace: String) -> String { ".\(namespace).json.tmp" }

    /// The namespace that a file is a copy of, finished or not; nil for a file of somebody else's.
    private static func namespace(of name: String) -> String? {
        let isTemporary = name.hasPrefix(".") && name.hasSuffix(".json.tmp")
        guard isTemporary || name.hasSuffix(".json") else { return nil }
        let namespace = String(isTemporary ? name.dropFirst().dropLast(9) : name.dropLast(5))
        return NamespaceConfiguration.isName(namespace) ? namespace : nil
    }

    private static func open(_ path: String) throws(ExportError) -> FileLock {
        let descriptor = uninterrupted { Glibc.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) }
        guard descriptor >= 0 else { throw ExportError("open", path) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_uid == geteuid() else {
            close(descriptor)
            throw ExportError("\(path) belongs to user \(status.st_uid); remove it, or move the socket elsewhere")
        }
        do throws(FileLock.Failure) {
            return try FileLock(descriptor)
        } catch {
            if case .failed(let error) = error { throw ExportError("lock", path, error) }
            throw ExportError(
                "another agent keeps its copies in \(path); give each agent's socket a directory of its own, or set "
                    + "current.enabled to false for one")
        }
    }

    private func give(_ file: CInt, _ mode: UInt32, _ path: String) throws(ExportError) {
        var status = stat()
        guard fstat(file, &status) == 0 else { throw ExportError("stat", path) }
        if status.st_gid != group, fchown(file, uid_t.max, group) != 0 {
            throw ExportError("give to the socket's group (\(group))", path)
        }
        guard uninterrupted({ fchmod(file, mode) }) == 0 else { throw ExportError("change the mode of", path) }
    }
}

/// Why there are no copies, or old ones.
struct ExportError: Error, CustomStringConvertible {
    /// One line: what happened, and what to do where that is known.
    let description: String

    init(_ description: String) { self.description = description }

    /// A system call that failed just now.
    init(_ operation: String, _ path: String, _ error: Errno = .current) {
        self.init("cannot \(operation) \(path): \(error)")
    }

    /// A copy that could not be replaced.
    init(_ failure: AtomicReplace.Failure, _ path: String) { self.init(failure.step.rawValue, path, failure.error) }
}
