import Glibc
internal import LarderEncoding

/// A directory of the agent in which another user could replace files, or a path on which another user could replace the
/// directory.
package struct UnsafeDirectory: Error, CustomStringConvertible {
    /// One line: what is wrong, and how to correct it.
    package let description: String

    /// Checks that a directory belongs to the user of this process or to root, and that no other user can write to it.
    /// Also checks each directory and symbolic link on its path: it must belong to this user or to root, and other users
    /// may write to a directory only if it has the sticky bit, as /tmp does. A directory that does not exist passes if
    /// the existing part of its path does.
    /// - Parameters:
    ///   - followsLink: whether the directory may be reached through a symbolic link
    ///   - allowsSticky: whether other users may write to the directory if the directory has the sticky bit, as /tmp
    ///     does. They cannot remove or rename the files of this user there, but they can create files before the agent
    ///     does.
    package static func check(
        _ path: String, followsLink: Bool = true, allowsSticky: Bool = false
    ) throws(UnsafeDirectory) {
        try checkComponents(of: path)
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
                    + "\(owner), name another directory, or change its owner: chown -R \(user) \(path.shellWord)")
        }
        // The value of S_ISVTX as a literal: both Glibc and a C module declare this name, so using it would be
        // ambiguous.
        let isSticky = mode & 0o1000 != 0
        if mode & 0o022 == 0 || allowsSticky && isSticky { return }
        // After `chmod go-w`, a directory of root would be unusable for the user of this process, so the command
        // changes its owner, too.
        let command = owner == user ? "" : "chown -R \(user) \(path.shellWord) && "
        let sticky = allowsSticky ? ", or: chmod +t \(path.shellWord)" : ""
        // A container volume, such as a Kubernetes emptyDir, belongs to root, and its container may have no root user,
        // so the message proposes an init container.
        let place = owner == 0 && user != 0 ? " as root (in a pod, in an init container)" : ""
        throw UnsafeDirectory(
            description: "\(path) has mode 0\(String(mode, radix: 8)), so other users can write to it; name another "
                + "directory, or run\(place): \(command)chmod go-w \(path.shellWord)\(sticky)")
    }

    /// Checks that a file belongs to the user of this process or to root, that no other user can write to it, and that no
    /// other user can replace it, or a directory or symbolic link on its path. A file that does not exist passes if the
    /// existing part of its path does.
    package static func checkFile(_ path: String) throws(UnsafeDirectory) {
        try checkComponents(of: path)
        var status = stat()
        guard fstatat(AT_FDCWD, path, &status, 0) == 0 else { return }
        guard isTrusted(status.st_uid) else {
            throw UnsafeDirectory(
                description:
                    "\(path) belongs to user \(status.st_uid), who could change it, and the agent runs as user "
                    + "\(geteuid()); change its owner: chown \(geteuid()) \(path.shellWord)")
        }
        if status.st_mode & 0o022 == 0 { return }
        throw UnsafeDirectory(
            description:
                "\(path) has mode 0\(String(status.st_mode & 0o7777, radix: 8)), so other users can write to it; "
                + "run: chmod go-w \(path.shellWord)")
    }

    /// The maximum number of symbolic links on a path (path_resolution(7)).
    private static let maxLinks = 40

    /// Checks the directories that contain the components of a path, and the links on it. Walks the path as the kernel
    /// does, until a component does not exist or cannot be reached. The path is a sequence of bytes, because the target
    /// of a link need not be UTF-8.
    private static func checkComponents(of path: String) throws(UnsafeDirectory) {
        func names(_ path: [UInt8]) -> [[UInt8]] {
            path.split(separator: UInt8(ascii: "/")).map(Array.init).reversed()
        }
        var place: [UInt8] = []
        var rest = names(Array(absolutePath(path).utf8))
        var links = 0
        while let name = rest.popLast() {
            if name.elementsEqual(".".utf8) { continue }
            if name.elementsEqual("..".utf8) {
                place = Array(place[..<(place.lastIndex(of: UInt8(ascii: "/")) ?? 0)])
                continue
            }
            try checkContainer(place.isEmpty ? [UInt8(ascii: "/")] : place, of: path)
            let next = place + [UInt8(ascii: "/")] + name
            guard let status = status(next) else { return }
            guard status.st_mode & S_IFMT == S_IFLNK else {
                place = next
                continue
            }
            guard isTrusted(status.st_uid) else {
                throw UnsafeDirectory(
                    description:
                        "\(text(next)), a symbolic link on the path \(path), belongs to user \(status.st_uid), "
                        + "who could make it point elsewhere; name another directory, or replace the link with its target"
                )
            }
            links += 1
            guard links <= maxLinks, let target = target(of: next) else { return }
            if target.first == UInt8(ascii: "/") { place = [] }
            rest += names(target)
        }
    }

    /// Checks that no other user can replace an entry of this user or of root in a directory on the way to `path`.
    private static func checkContainer(_ directory: [UInt8], of path: String) throws(UnsafeDirectory) {
        guard let status = status(directory) else { return }
        let (user, owner, mode) = (geteuid(), status.st_uid, status.st_mode & 0o7777)
        guard isTrusted(owner) else {
            throw UnsafeDirectory(
                description: "\(text(directory)) belongs to user \(owner), who could replace \(path); run the agent as "
                    + "user \(owner), name a directory elsewhere, or change the owner: chown \(user) \(text(directory).shellWord)"
            )
        }
        if mode & 0o022 == 0 || mode & 0o1000 != 0 { return }
        throw UnsafeDirectory(
            description:
                "\(text(directory)) has mode 0\(String(mode, radix: 8)), so other users could replace \(path); "
                + "name a directory elsewhere, or run: chmod go-w \(text(directory).shellWord), or: "
                + "chmod +t \(text(directory).shellWord)")
    }

    private static func isTrusted(_ owner: uid_t) -> Bool { owner == geteuid() || owner == 0 }

    /// The status of a file or link (lstat(2)); nil if it does not exist or cannot be reached.
    private static func status(_ path: [UInt8]) -> stat? {
        var status = stat()
        return lstat(terminated(path), &status) == 0 ? status : nil
    }

    /// The target of a symbolic link; nil if it cannot be read.
    private static func target(of path: [UInt8]) -> [UInt8]? {
        var target = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(terminated(path), &target, target.count)
        return count < 0 ? nil : target.prefix(count).map { UInt8(bitPattern: $0) }
    }

    private static func terminated(_ path: [UInt8]) -> [CChar] { path.map { CChar(bitPattern: $0) } + [0] }

    private static func text(_ path: [UInt8]) -> String { String(decoding: path, as: UTF8.self) }
}
