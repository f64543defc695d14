import CLinuxShims
import LarderPlatform
import Glibc

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
