import CLinuxShims
import Glibc
import LarderEncoding
package import LarderPlatform
import SystemPackage

/// The state directory. Only one agent at a time uses it, and an epoch identifies its lifetime.
package final class StateDirectory: Sendable {
    /// Another agent uses the directory.
    package struct Locked: Error, CustomStringConvertible {
        package let path: String
        /// The process ID of that agent; empty if it could not be read.
        package let holder: String
        package var description: String {
            "another agent\(holder.isEmpty ? "" : " (pid \(holder))") uses the state directory \(path); "
                + "stop it, or give this one another directory with --state-directory"
        }
    }

    /// Sixteen hex digits. A new epoch begins when revisions may stand for other content than before: after the
    /// directory was created, restored from a backup or moved to another machine.
    package let epoch: String
    /// Whether the state was found in another location than recorded, so that a new epoch began.
    package let isMoved: Bool
    private let lock: FileLock

    /// - Parameter machine: identifies this host
    package init(path: String, machine: String = "", files: any FileSystem) throws {
        // Before the check, nothing is created below a directory that another user could replace.
        try UnsafeDirectory.check(path)
        try files.createDirectory(path)
        try UnsafeDirectory.check(path)
        try UnsafeDirectory.check(path + "/config", followsLink: false)
        let lockPath = path + "/lock"
        let descriptor = try Self.openLock(lockPath)
        do throws(FileLock.Failure) {
            lock = try FileLock(descriptor)
        } catch {
            switch error {
            case .failed(let error): throw FileError("lock", lockPath, errno: error.rawValue)
            case .isHeld(let holder): throw Locked(path: path, holder: holder)
            }
        }
        lock.writeProcessID()

        let epochPath = path + "/epoch"
        let identity = try StateIdentity(machine: machine, directory: path, lock: lock.descriptor)
        let known = try files.read(epochPath).flatMap(EpochFile.init)
        isMoved = known?.isMoved(from: identity) ?? false
        let file = EpochFile(
            epoch: isMoved ? Self.newEpoch() : known?.epoch ?? Self.newEpoch(), identity: identity.text)
        epoch = file.epoch
        if file == known { return }
        do throws(FileError) {
            try files.replace(epochPath, with: file.encoded())
        } catch {
            // The epoch file could not be written. If the directory has none, it also has no state to serve, so the
            // agent cannot start. Otherwise the agent can run: at worst, the file has no record of the location, or the
            // next start begins yet another epoch.
            if known == nil { throw error }
        }
    }

    /// Opens the lock file, and creates it if it does not exist. A symbolic link and a file with other names are refused,
    /// because the lock file is truncated later, which would destroy the target of the link or the content of the file.
    private static func openLock(_ path: String) throws(FileError) -> CInt {
        let flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
        var descriptor = uninterrupted { open(path, O_RDWR | O_CREAT | flags, 0o600) }
        let failure = errno
        // A file system that has become read-only after an error still contains the state to serve, so the lock file is
        // opened for reading.
        if descriptor < 0, failure == EROFS { descriptor = uninterrupted { open(path, O_RDONLY | flags) } }
        guard descriptor >= 0 else {
            let reason = failure == ELOOP ? "\(path) is a symbolic link; remove it" : nil
            throw FileError("open", path, errno: failure, reason: reason)
        }
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw FileError(notARegularFile: path)
        }
        guard information.st_nlink <= 1 else {
            close(descriptor)
            throw FileError(
                "open", path, errno: EMLINK, reason: "\(path) is a hard link to a file with another name; remove it")
        }
        return descriptor
    }

    /// Lets another agent use the directory. This agent must not use the directory any more.
    package func unlock() { lock.unlock() }

    /// Returns a new random epoch.
    package static func newEpoch() -> String { withUnsafeBytes(of: UInt64.random(in: .min ... .max)) { $0.hex } }
}

/// The epoch file. Its first line is the epoch. The record of ``StateIdentity`` follows, which earlier versions of this
/// program did not write.
struct EpochFile: Equatable {
    var epoch: String
    /// Empty if there is no record.
    var identity: String
}

extension EpochFile {
    /// Parses a file; nil if it does not begin with an epoch.
    init?(_ bytes: [UInt8]) {
        let line = bytes.prefix { $0 != 0x0A }
        epoch = String(decoding: line, as: UTF8.self)
        identity = String(decoding: bytes.dropFirst(line.count + 1), as: UTF8.self)
        if epoch.utf8.count != 16 || [UInt8](hex: epoch) == nil { return nil }
    }

    func encoded() -> [UInt8] { Array("\(epoch)\n\(identity)".utf8) }

    /// Whether the file was written in another location. A file without a record counts as not moved.
    func isMoved(from identity: StateIdentity) -> Bool { !self.identity.isEmpty && self.identity != identity.text }
}

/// The location of a state directory: the machine, and the identities of the directory and of its lock file.
///
/// The epoch file records this location. A restored backup or a cloned disk has the state of another lifetime, whose
/// revisions may stand for other content. The location in its epoch file differs from the actual one, unless a whole
/// file system was copied on the same machine. The agent never replaces the lock file. Another lock file therefore
/// reveals a backup that was restored into the existing directory.
struct StateIdentity: Sendable, Equatable {
    /// The lines of the record, which follow the first line of the epoch file.
    let text: String

    /// - Parameters:
    ///   - machine: identifies this host
    ///   - directory: the path of the state directory
    ///   - lock: the open lock file
    init(machine: String, directory: String, lock: CInt) throws(FileError) {
        let directory = try PersistentFileIdentity(directory, relativeTo: AT_FDCWD)
        let lock = try PersistentFileIdentity("", relativeTo: lock)
        text = "machine \(machine)\ndirectory \(directory)\nlock \(lock)\n"
    }
}

/// The inode and birth time of a file, which survive a reboot. The device number may change and is not used.
private struct PersistentFileIdentity: CustomStringConvertible {
    private var inode: UInt64 = 0
    /// Seconds since 1970; -1 if the file system records no birth times.
    private var bornSeconds: Int64 = -1
    private var bornNanoseconds: UInt32 = 0

    init(_ path: String, relativeTo descriptor: CInt) throws(FileError) {
        let result = uninterrupted {
            larder_file_identity(descriptor, path, &inode, &bornSeconds, &bornNanoseconds)
        }
        guard result == 0 else { throw FileError("statx", path, errno: errno) }
    }

    var description: String {
        let digits = String(bornNanoseconds)
        let fraction = String(repeating: "0", count: max(0, 9 - digits.count)) + digits
        return "\(inode) \(bornSeconds < 0 ? "-" : "\(bornSeconds).\(fraction)")"
    }
}
