import CLinuxShims
import LarderUpstream
import Glibc

/// Opening what is below a directory, and nothing elsewhere: a name with "..", an absolute one, and a symbolic link
/// anywhere on the way are refused.
enum OpenBeneath {
    /// Opens it, close-on-exec, by openat2(2), or step by step where there is none: before Linux 5.6, and in services with
    /// `RestrictSUIDSGID=` (systemd.exec(5)), which cannot look at the mode that it is given.
    /// - Returns: the descriptor, or -1 with errno set.
    static func open(_ directory: CInt, _ name: String, _ flags: CInt, mode: mode_t) -> CInt {
        let resolve = UInt64(LARDER_RESOLVE_BENEATH | LARDER_RESOLVE_NO_SYMLINKS)
        while true {
            let result = larder_openat2(directory, name, UInt64(flags | O_CLOEXEC), UInt64(mode), resolve)
            if result >= 0 { return result }
            if errno == ENOSYS { return stepByStep(directory, name, flags, mode: mode) }
            // EAGAIN: somebody renamed something meanwhile, and the kernel could not be sure.
            guard errno == EINTR || errno == EAGAIN else { return -1 }
        }
    }

    /// The same, each directory on the way opened for itself, and none through a link.
    static func stepByStep(_ directory: CInt, _ name: String, _ flags: CInt, mode: mode_t) -> CInt {
        let steps = name.split(separator: "/", omittingEmptySubsequences: false)
        // "." alone is the directory itself.
        guard name == "." || !steps.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) else {
            errno = EXDEV
            return -1
        }
        var place = directory
        for step in steps.dropLast() {
            let next = uninterrupted {
                openat(place, String(step), CInt(LARDER_O_PATH) | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
            }
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

    private static func leave(_ place: CInt, _ directory: CInt) {
        guard place != directory else { return }
        let number = errno
        close(place)
        errno = number
    }
}
