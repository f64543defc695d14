package import Glibc

/// The part of a file status (stat(2)) that differs after a change of the file.
package struct FileIdentity: Equatable {
    private let device: UInt64
    private let inode: UInt64
    private let size: Int64
    private let modified: [Int]
    private let changed: [Int]

    package init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
        changed = [status.st_ctim.tv_sec, status.st_ctim.tv_nsec]
    }
}

extension Descriptor {
    /// The status of the file (fstat(2)); nil with errno set if the call fails.
    package func status() -> stat? {
        var status = stat()
        return fstat(number, &status) == 0 ? status : nil
    }
}

/// The status of a file by name (stat(2), lstat(2)); nil with errno set if the call fails.
package func fileStatus(_ name: [CChar], in directory: CInt = AT_FDCWD, followingLinks: Bool = true) -> stat? {
    var status = stat()
    return fstatat(directory, name, &status, followingLinks ? 0 : AT_SYMLINK_NOFOLLOW) == 0 ? status : nil
}

extension stat {
    /// The file type bits of the mode (inode(7)).
    package var fileType: mode_t { st_mode & S_IFMT }
}

extension String {
    /// The bytes of a path with a terminating NUL, for system calls.
    package var cPath: [CChar] { utf8CString.map { $0 } }
}

/// Whether the user of this process is not allowed to read a file that may exist.
package func isAccessDenied(_ path: String) -> Bool {
    faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0 && errno == EACCES
}
