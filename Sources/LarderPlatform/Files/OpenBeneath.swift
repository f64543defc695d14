internal import CLinuxShims
import Glibc

/// Opens files below a directory and nowhere else: a path with "..", an absolute path and a symbolic link anywhere on the
/// path are refused.
package enum OpenBeneath {
    /// Opens `name`, close-on-exec. Each directory of the path is opened by itself, without following a link.
    ///
    /// openat2(2) would do this in one call, but `RestrictSUIDSGID=` (systemd.exec(5)) makes it fail, and the packaged unit
    /// sets that.
    /// - Returns: the descriptor, or -1 with errno set.
    package static func open(_ directory: CInt, _ name: String, _ flags: CInt, mode: UInt32 = 0) -> CInt {
        let steps = name.split(separator: "/", omittingEmptySubsequences: false)
        // "." alone is the directory itself.
        guard name == "." || !steps.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) else {
            errno = EXDEV
            return -1
        }
        var place = directory
        for step in steps.dropLast() {
            let next = uninterrupted { openat(place, String(step), placeFlags | O_NOFOLLOW) }
            leave(place, directory)
            if next < 0 { return -1 }
            place = next
        }
        let result = uninterrupted {
            openat(place, String(steps[steps.count - 1]), flags | O_NOFOLLOW | O_CLOEXEC, mode)
        }
        leave(place, directory)
        return result
    }

    /// The flags that open a directory only as a place to open files in, which takes no right to read it.
    package static let placeFlags = CInt(LARDER_O_PATH) | O_DIRECTORY | O_CLOEXEC

    private static func leave(_ place: CInt, _ directory: CInt) {
        guard place != directory else { return }
        let number = errno
        close(place)
        errno = number
    }
}
