import Glibc

/// A directory of the agent in which another user could replace files.
package struct UnsafeDirectory: Error, CustomStringConvertible {
    /// One line: what is wrong with it, and the command that changes it.
    package let description: String

    /// Checks that a directory belongs to the user of this process or to root, and that no other user can write to it.
    /// The check passes if it does not exist.
    ///
    /// - Parameters:
    ///   - followsLink: whether the directory may be reached through a symbolic link
    ///   - allowsSticky: whether others may write to it if it has the sticky bit, as /tmp has: they cannot remove or rename
    ///     the files of this user there. They could make files before the agent does.
    package static func check(
        _ path: String, followsLink: Bool = true, allowsSticky: Bool = false
    ) throws(UnsafeDirectory) {
        var status = stat()
        guard fstatat(AT_FDCWD, path, &status, followsLink ? 0 : AT_SYMLINK_NOFOLLOW) == 0 else { return }
        if status.st_mode & S_IFMT == S_IFLNK {
            throw UnsafeDirectory(
                description:
                    "\(path) is a symbolic link, which is not followed here; move what it leads to into its place, "
                    + "or name another directory in the settings")
        }
        let (user, owner, mode) = (geteuid(), status.st_uid, status.st_mode & 0o7777)
        guard owner == user || owner == 0 else {
            throw UnsafeDirectory(
                description: "\(path) belongs to user \(owner), and the agent runs as user \(user); run it as user "
                    + "\(owner), name another directory, or change its owner: chown -R \(user) \(path)")
        }
        // S_ISVTX is declared twice, by Glibc and in C.
        let isSticky = mode & 0o1000 != 0
        if mode & 0o022 == 0 || allowsSticky && isSticky { return }
        // What belongs to root would be of no use to another user without these bits.
        let command = owner == user ? "" : "chown -R \(user) \(path) && "
        let sticky = allowsSticky ? ", or: chmod +t \(path)" : ""
        // A volume of a container, such as emptyDir of Kubernetes, belongs to root, and its container has no root.
        let place = owner == 0 && user != 0 ? " as root (in a pod, in an init container)" : ""
        throw UnsafeDirectory(
            description: "\(path) has mode 0\(String(mode, radix: 8)), so other users can write to it; name another "
                + "directory, or run\(place): \(command)chmod go-w \(path)\(sticky)")
    }
}
