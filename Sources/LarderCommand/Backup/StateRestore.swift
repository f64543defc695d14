import CLinuxShims
import Glibc
import LarderEncoding
import LarderPlatform
import SystemPackage

/// Restores a backup to a state directory. It writes a new tree of the configuration next to the current tree, then
/// exchanges the names of the two trees: in one step if the file system supports it, else in two.
struct StateRestore {
    let directory: String
    /// The name under which the restore keeps the old configuration tree in the state directory.
    static let previousName = "config.before-restore"

    private var current: String { directory + "/config" }
    private var next: String { directory + "/config.restoring" }
    private var previous: String { directory + "/" + Self.previousName }

    /// Restores the backup. It removes the file of the epoch, so the agent starts a new epoch.
    /// - Throws: ``Failure`` if an agent uses the directory or the disk fails. The current configuration is then kept.
    func run(_ backup: BackupFile) throws(Failure) {
        let isRoot = geteuid() == 0
        try becomeOwner()
        let lock = try takeLock(isRoot: isRoot)
        defer { extendLifetime(lock) }
        try remove(next)
        do {
            try write(backup)
        } catch {
            try? remove(next)
            throw error
        }
        // If `current` does not exist, an earlier run may have ended between the two renames of exchange(). `previous`
        // is then the only copy of the state, so it is kept.
        if exists(current) { try remove(previous) }
        // Remove the epoch before the state is exchanged. Otherwise a crash could leave the restored state with the old
        // epoch.
        try check(unlink(directory + "/epoch") == 0 || errno == ENOENT, "remove", directory + "/epoch")
        try exchange()
        try synchronize(directory)
    }

    /// Makes this process run as the owner of the directory. The new files then have the right owner, and symbolic
    /// links that the owner created are not followed with the rights of root.
    private func becomeOwner() throws(Failure) {
        var information = stat()
        let exists = stat(directory, &information) == 0
        guard exists, information.st_mode & S_IFMT == S_IFDIR else {
            let reason = String(cString: strerror(exists ? ENOTDIR : errno))
            throw Failure(
                .failure,
                "cannot restore to \(directory): \(reason); name the state directory with --state-directory")
        }
        if geteuid() != 0 || information.st_uid == 0 { return }
        try check(setgroups(0, nil) == 0, "drop groups to write to", directory)
        try check(setegid(information.st_gid) == 0, "become group \(information.st_gid) to write to", directory)
        try check(seteuid(information.st_uid) == 0, "become user \(information.st_uid) to write to", directory)
    }

    /// Acquires the lock of the directory. Fails while an agent runs, because the agent holds the lock.
    private func takeLock(isRoot: Bool) throws(Failure) -> FileLock {
        let path = directory + "/lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o600)
        try check(descriptor >= 0, "open", path)
        // The agent refuses such a file, too. The lock of a file with another name is not a lock of this directory.
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG, information.st_nlink <= 1
        else {
            close(descriptor)
            throw Failure(
                .failure, "\(path) is not a regular file, or is a hard link to a file with another name; remove it")
        }
        do throws(FileLock.Failure) {
            return try FileLock(descriptor)
        } catch {
            switch error {
            case .failed(let error): throw Failure.cannot("lock", path, error.rawValue)
            case .isHeld(let holder):
                throw Failure(
                    .failure,
                    "an agent\(holder.isEmpty ? "" : " (pid \(holder))") is using \(directory); stop it first: systemctl "
                        + "\(isRoot ? "" : "--user ")stop larder.socket larder.service"
                        + (holder.isEmpty ? "" : ", or if systemd did not start it: kill \(holder)"))
            }
        }
    }

    private func write(_ backup: BackupFile) throws(Failure) {
        try makeDirectory(next)
        for (namespace, generations) in Dictionary(grouping: backup.generations, by: \.namespace) {
            let place = next + "/" + namespace
            try makeDirectory(place)
            try makeDirectory(place + "/generations")
            for generation in generations {
                let name = String(generation.revision).rightAligned(to: 16, with: "0") + ".json"
                try NewFile.write(Array(generation.text.utf8), to: place + "/generations/" + name)
            }
            let pins = generations.filter(\.isPinned).map { "\($0.revision)" }.joined(separator: ",")
            if !pins.isEmpty { try NewFile.write(Array("[\(pins)]\n".utf8), to: place + "/pinned") }
            try synchronize(place + "/generations")
            try synchronize(place)
        }
        try synchronize(next)
    }

    /// Replaces the current tree with the new one, and renames the replaced tree to `previous`.
    private func exchange() throws(Failure) {
        if !exists(current) { return try check(rename(next, current) == 0, "rename", next) }
        if larder_exchange_names(next, current) == 0 {
            return try check(rename(next, previous) == 0, "rename", next)
        }
        // The file system cannot exchange names, so two renames are needed. A crash between them loses nothing, and the
        // user can repeat the command.
        try check(rename(current, previous) == 0, "rename", current)
        try check(rename(next, current) == 0, "rename", next)
    }

    private func exists(_ path: String) -> Bool {
        var information = stat()
        return lstat(path, &information) == 0 || errno != ENOENT
    }

    private func makeDirectory(_ path: String) throws(Failure) {
        try check(mkdir(path, 0o700) == 0, "create directory", path)
    }

    private func synchronize(_ path: String) throws(Failure) {
        try perform("fsync", path, synchronizeDirectory)
    }

    private func remove(_ path: String) throws(Failure) { try perform("remove", path, removeTree) }

    private func perform(
        _ operation: String, _ path: String, _ call: (String) throws(Errno) -> Void
    ) throws(Failure) {
        do throws(Errno) {
            try call(path)
        } catch {
            throw Failure.cannot(operation, path, error.rawValue)
        }
    }

    private func check(_ isDone: Bool, _ operation: String, _ path: String) throws(Failure) {
        if !isDone { throw Failure.cannot(operation, path) }
    }
}

/// Writes files that only their owner can access and that are flushed to disk when the call returns.
enum NewFile {
    /// Creates a file.
    /// - Throws: ``Failure`` if the file already exists or cannot be written. A partially written file is removed.
    static func write(_ bytes: [UInt8], to path: String) throws(Failure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure.cannot("write", path) }
        defer { close(descriptor) }
        do throws(Errno) {
            try writeAll(bytes, to: descriptor)
            guard uninterrupted({ fsync(descriptor) }) == 0 else { throw .current }
        } catch {
            unlink(path)
            throw Failure.cannot("write", path, error.rawValue)
        }
    }

    /// Replaces a file atomically. An existing file of this user keeps its group, mode and attributes.
    /// - Throws: ``Failure`` if the file cannot be written, belongs to another user, who could then read the content, or
    ///   is not a regular file. A device such as `/dev/null` or a symbolic link such as `/dev/stdout` must not be
    ///   replaced.
    static func replace(_ path: String, with bytes: [UInt8]) throws(Failure) {
        var metadata: FileMetadata?
        var information = stat()
        if lstat(path, &information) == 0 {
            guard information.st_mode & S_IFMT == S_IFREG else {
                throw Failure(.usage, "\(path.printable) exists and is not a regular file; name another file")
            }
            guard information.st_uid == geteuid() else {
                throw Failure(
                    .failure,
                    "\(path.printable) belongs to the user with the number \(information.st_uid), who could read the new "
                        + "content; remove it, or name another file")
            }
            metadata = try FileMetadata(of: path, information)
        }
        var file: AtomicReplace
        do throws(AtomicReplace.Failure) {
            file = try AtomicReplace(path, temporary: path + ".\(getpid()).tmp", mode: 0o600)
        } catch {
            throw Failure.cannot("write", path, error.error.rawValue)
        }
        do throws(AtomicReplace.Failure) {
            try file.write(bytes)
        } catch {
            throw Failure.cannot("write", path, error.error.rawValue)
        }
        try metadata?.apply(to: file.descriptor, named: path)
        do throws(AtomicReplace.Failure) {
            try file.replace(synchronizing: true)
        } catch {
            if error.step == .rename { throw Failure.cannotReplace(path, error.error.rawValue) }
            throw Failure.cannot("write", path, error.error.rawValue)
        }
    }
}

/// The directory to which a backup is restored.
enum StateLocation {
    /// Returns the directory given on the command line, else the default state directory of this user's agent. The
    /// directory that the backup names is only compared with the default. It is never used itself, because a backup
    /// from another host could then make root write to any path.
    /// - Throws: ``Failure`` if no directory is given, and the default is unknown or differs from the directory that
    ///   the backup names.
    static func directory(named option: String?, for backup: BackupFile, _ file: String) throws(Failure) -> String {
        if let option { return option }
        let defaultDirectory = defaultDirectory(isRoot: geteuid() == 0) { getenv($0).map { String(cString: $0) } }
        if let defaultDirectory, defaultDirectory == backup.stateDirectory { return defaultDirectory }
        throw Failure(
            .usage,
            "the backup is from an agent with the state directory \(backup.stateDirectory)"
                + (defaultDirectory.map { ", but the default here is \($0)" }
                    ?? ", and there is no default here, because HOME is not set")
                + "; name the directory to restore to: larder restore \(file.shellWord) --state-directory "
                + backup.stateDirectory.shellWord)
    }

    /// The default state directory of this user's agent; nil if the environment does not determine it.
    static func defaultDirectory(isRoot: Bool, environment: (String) -> String?) -> String? {
        if isRoot { return "/var/lib/larder" }
        func absolute(_ name: String) -> String? {
            environment(name).flatMap { $0.hasPrefix("/") ? $0 : nil }
        }
        return (absolute("XDG_STATE_HOME") ?? absolute("HOME").map { "\($0)/.local/state" }).map { "\($0)/larder" }
    }
}
