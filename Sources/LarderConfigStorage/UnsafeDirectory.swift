import Glibc

/// A directory of the agent in which another user could replace files.
package struct UnsafeDirectory: Error, CustomStringConvertible {
    /// One line: what is wrong, and how to correct it.
    package let description: String

    /// Checks that a directory belongs to the user of this process or to root, and that no other user can write to it.
    /// A directory that does not exist passes.
    /// - Parameters:
    ///   - followsLink: whether the directory may be reached through a symbolic link
    ///   - allowsSticky: whether other users may write to the directory if the directory has the sticky bit, as /tmp
    ///     does. They cannot remove or rename the files of this user there, but they can create files before the agent
    ///     does.
    package static func check(
        _ path: String, followsLink: Bool = true, allowsSticky: Bool = false
    ) throws(UnsafeDirectory) {
        var status = stat()
        guard fstatat(AT_FDCWD, path, &status, followsLink ? 0 : AT_SYMLINK_NOFOLLOW) == 0 else { return }
        if status.st_mode & S_IFMT == S_IFLNK {
            throw UnsafeDirectory(
                description:
                    "\(path) is a symbolic link, which is not followed here; replace it with its target, "
                    + "or name another directory in the settings")
        }
        let (user, owner, mode) = (geteuid(), status.st_uid, status.st_mode & 0o7777)
        guard owner == user || owner == 0 else {
            throw UnsafeDirectory(
                description: "\(path) belongs to user \(owner), and the agent runs as user \(user); run it as user "
                    + "\(owner), name another directory, or change its owner: chown -R \(user) \(path)")
        }
        // The value of S_ISVTX as a literal: both Glibc and a C module declare this name, so using it would be
        // ambiguous.
        let isSticky = mode & 0o1000 != 0
        if mode & 0o022 == 0 || allowsSticky && isSticky { return }
        // After `chmod go-w`, a directory of root would be unusable for the user of this process, so the command
        // changes its owner, too.
        let command = owner == user ? "" : "chown -R \(user) \(path) && "
        let sticky = allowsSticky ? ", or: chmod +t \(path)" : ""
        // A container volume, such as a Kubernetes emptyDir, belongs to root, and its container may have no root user,
        // so the message proposes an init container.
        let place = owner == 0 && user != 0 ? " as root (in a pod, in an init container)" : ""
        throw UnsafeDirectory(
            description: "\(path) has mode 0\(String(mode, radix: 8)), so other users can write to it; name another "
                + "directory, or run\(place): \(command)chmod go-w \(path)\(sticky)")
    }
}
