import Glibc
import LarderPlatform

extension Descriptor {
    /// The status of the file (fstat(2)); nil with errno set if the call fails.
    func status() -> stat? {
        var status = stat()
        return fstat(number, &status) == 0 ? status : nil
    }
}

/// The status of a file by name (stat(2), lstat(2)); nil with errno set if the call fails.
func fileStatus(_ name: [CChar], in directory: CInt = AT_FDCWD, followingLinks: Bool = true) -> stat? {
    var status = stat()
    return fstatat(directory, name, &status, followingLinks ? 0 : AT_SYMLINK_NOFOLLOW) == 0 ? status : nil
}

extension stat {
    /// The file type bits of the mode (inode(7)).
    var fileType: mode_t { st_mode & S_IFMT }
}

extension String {
    /// The bytes of a path with a terminating NUL, for system calls.
    var cPath: [CChar] { utf8CString.map { $0 } }
}
