internal import CLinuxShims
import Glibc

/// Opens files below a directory and nowhere else. Rejects paths that contain "..", absolute paths, and symbolic links
/// anywhere in the path.
package enum OpenBeneath {
    /// Opens `name` with O_CLOEXEC. Opens each directory in the path separately, without following symbolic links.
    ///
    /// A single openat2(2) call could do the same, but it fails under `RestrictSUIDSGID=` (systemd.exec(5)), which the
    /// packaged unit sets.
    /// - Returns: the descriptor, or -1 with errno set
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

    /// Flags to open a directory only as the starting point of openat(2). This does not require permission to read the
    /// directory.
    package static let placeFlags = CInt(LARDER_O_PATH) | O_DIRECTORY | O_CLOEXEC

    private static func leave(_ place: CInt, _ directory: CInt) {
        guard place != directory else { return }
        let number = errno
        close(place)
        errno = number
    }
}
