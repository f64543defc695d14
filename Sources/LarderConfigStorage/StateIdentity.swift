import CLinuxShims
import LarderPlatform
import Glibc

/// Where a state directory is: on which machine, and which directory and lock file it is there.
///
/// The epoch file records it. A restored backup and a cloned disk have the state of another life, whose revisions may stand for
/// other content; they differ from the record, unless a whole file system was copied on the same machine. The lock file tells a
/// backup that was restored into the existing directory, because the agent never replaces that file.
struct StateIdentity: Sendable, Equatable {
    /// The lines of the record, in the epoch file behind its first line.
    let text: String

    /// - Parameters:
    ///   - machine: what tells this host from others
    ///   - directory: the path of the state directory
    ///   - lock: the open lock file
    init(machine: String, directory: String, lock: CInt) throws(FileError) {
        let directory = try PersistentFileIdentity(directory, relativeTo: AT_FDCWD)
        let lock = try PersistentFileIdentity("", relativeTo: lock)
        text = "machine \(machine)\ndirectory \(directory)\nlock \(lock)\n"
    }
}

/// The inode and birth time of a file, which stay over reboots. The device number may change.
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
