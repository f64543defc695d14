import CLinuxShims
import Glibc
import LarderPlatform
internal import LarderUpstream

/// An open file descriptor that is closed when it goes out of scope.
struct Descriptor: ~Copyable {
    let number: CInt

    /// Opens a file (open(2)).
    ///
    /// - Parameters:
    ///   - name: the name, ending with 0
    ///   - directory: what a relative name starts from
    init(_ name: [CChar], in directory: CInt = AT_FDCWD, flags: CInt) throws(Errno) {
        // O_NONBLOCK: whoever puts a FIFO here must not hold up a thread of ours until somebody writes to it.
        let result = uninterrupted {
            openat(directory, name, flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        }
        guard result >= 0 else { throw Errno(number: errno) }
        number = result
    }

    deinit { close(number) }

    /// What fstat(2) says.
    func status() -> stat? {
        var status = stat()
        return fstat(number, &status) == 0 ? status : nil
    }
}

/// What stat(2) and lstat(2) say of a name, or nothing with `errno` set.
func fileStatus(_ name: [CChar], in directory: CInt = AT_FDCWD, followingLinks: Bool = true) -> stat? {
    var status = stat()
    return fstatat(directory, name, &status, followingLinks ? 0 : AT_SYMLINK_NOFOLLOW) == 0 ? status : nil
}

extension stat {
    /// The file type bits of the mode (inode(7)).
    var fileType: mode_t { st_mode & S_IFMT }
}

extension String {
    /// The bytes of a path with the 0 that system calls want.
    var cPath: [CChar] { utf8CString.map { $0 } }
}
