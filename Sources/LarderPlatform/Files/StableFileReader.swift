import Glibc
internal import LarderEncoding
internal import SystemPackage

/// Reads a file that other processes may be writing. All returned bytes belong to one version of the file.
package struct StableFileReader {
    private let name: [CChar]
    private let directory: CInt
    private let path: String
    private let maximumBytes: Int
    private let mustBePrivate: Bool

    /// The maximum number of attempts to read the file if it changes during each attempt.
    package static let attempts = 5

    /// The content of the file.
    package struct Reading {
        package let bytes: [UInt8]
        package let identity: FileIdentity
    }

    /// - Parameters:
    ///   - name: the name of the file, as passed to system calls
    ///   - directory: the descriptor of the directory to which `name` is relative; nil for the working directory
    ///   - path: the path of the file, for messages
    ///   - maximumBytes: the maximum size of the file
    ///   - mustBePrivate: whether the file must belong to root or to the agent's user, and be inaccessible to other
    ///     users. A file of root may be readable by its group.
    package init(
        name: [CChar], directory: CInt? = nil, path: String, maximumBytes: Int, mustBePrivate: Bool = false
    ) {
        self.name = name
        self.directory = directory ?? AT_FDCWD
        self.path = path
        self.maximumBytes = maximumBytes
        self.mustBePrivate = mustBePrivate
    }

    /// Reads the file. Tries again a few times if it changes during the read.
    package func read() throws(FileReadError) -> Reading {
        var dangling: FileReadError?
        for _ in 0..<Self.attempts {
            // The file is checked before it is opened, because opening a device can have side effects.
            if let status = fileStatus(name, in: directory) { try check(status) }
            let file: Descriptor
            do {
                file = try Descriptor(name, in: directory, flags: 0)
            } catch {
                // Another process may be about to replace a symbolic link whose target is missing, so the loop tries
                // again.
                dangling = try danglingLink(error.rawValue)
                continue
            }
            dangling = nil
            guard let before = file.status() else { throw FileReadError(path, errno: errno) }
            try check(before)
            let bytes = try contents(of: file.number, expected: Int(before.st_size))
            let identity = FileIdentity(before)
            // The second comparison detects that another file was renamed over this one during the read. The bytes that
            // were read would be complete, but outdated.
            guard let after = file.status(), identity == FileIdentity(after),
                let named = fileStatus(name, in: directory), identity == FileIdentity(named)
            else { continue }
            return Reading(bytes: bytes, identity: identity)
        }
        throw dangling
            ?? FileReadError(
                .unstable, path, "it changed during every read; write it less often, or rename it into place")
    }

    private func check(_ status: stat) throws(FileReadError) {
        guard status.fileType == S_IFREG else {
            throw FileReadError(.notAFile, path, "it is not a regular file; remove it or correct the path")
        }
        if Int(status.st_size) > maximumBytes { throw tooLarge }
        if mustBePrivate { try checkPrivacy(status) }
    }

    private func checkPrivacy(_ status: stat) throws(FileReadError) {
        let isRoots = status.st_uid == 0
        guard isRoots || status.st_uid == geteuid() else {
            throw FileReadError(
                .exposed, path,
                "it contains a secret but belongs to user \(AccountText.ofUser(status.st_uid)); run: chown "
                    + "\(AccountText.ofUser(geteuid()).shellWord) \(path.shellWord)")
        }
        // A file of root may be readable by its group, so that an agent that does not run as root can use the file.
        guard status.st_mode & (isRoots ? 0o037 : 0o077) == 0 else {
            let file = path.shellWord
            let remedy =
                if isRoots, geteuid() != 0 {
                    "chgrp \(AccountText.ofGroup(getegid()).shellWord) \(file) && chmod 640 \(file)"
                } else {
                    // A file of root with another group is one for a program that does not run as root.
                    isRoots && status.st_gid != 0 ? "chmod 640 \(file)" : "chmod 600 \(file)"
                }
            throw FileReadError(
                .exposed, path, "it contains a secret that other users can read or change; run: \(remedy)")
        }
    }

    /// Reads to the end of the file instead of `st_size`, because files in /proc report a size of 0.
    private func contents(of descriptor: CInt, expected: Int) throws(FileReadError) -> [UInt8] {
        var bytes: [UInt8] = []
        var room = expected + 1  // so that one call reads the whole file, and the next one finds the end
        while true {
            var result = 0
            let piece = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
                result = Glibc.read(descriptor, buffer.baseAddress, room)
                count = max(0, result)
            }
            if result < 0 && errno == EINTR { continue }
            if result < 0 { throw FileReadError(path, errno: errno) }
            if result == 0 { return bytes }
            if piece.count > maximumBytes - bytes.count { throw tooLarge }
            if bytes.isEmpty { bytes = piece } else { bytes += piece }
            room = 1 << 16
        }
    }

    private var tooLarge: FileReadError {
        FileReadError(.tooLarge, path, "it has more than \(maximumBytes) bytes; shrink it or raise the limit")
    }

    private func danglingLink(_ number: CInt) throws(FileReadError) -> FileReadError {
        guard number == ENOENT, fileStatus(name, in: directory, followingLinks: false)?.fileType == S_IFLNK else {
            throw FileReadError(path, errno: number)
        }
        return FileReadError(
            .notFound, path, "the target of the symbolic link does not exist; repair or remove the link", errno: number)
    }
}

/// The names of users and groups in messages. The client library has the same lookups, but is independent of this module.
private enum AccountText {
    private static let bufferSize = 1 << 16

    /// The name of a user; the number if the host has no name for it.
    static func ofUser(_ id: uid_t) -> String {
        var (record, found) = (passwd(), UnsafeMutablePointer<passwd>?.none)
        var buffer = [CChar](repeating: 0, count: bufferSize)
        guard getpwuid_r(id, &record, &buffer, buffer.count, &found) == 0 else { return "\(id)" }
        return found?.pointee.pw_name.map { String(cString: $0) } ?? "\(id)"
    }

    /// The name of a group; the number if the host has no name for it.
    static func ofGroup(_ id: gid_t) -> String {
        var (record, found) = (group(), UnsafeMutablePointer<group>?.none)
        var buffer = [CChar](repeating: 0, count: bufferSize)
        guard getgrgid_r(id, &record, &buffer, buffer.count, &found) == 0 else { return "\(id)" }
        return found?.pointee.gr_name.map { String(cString: $0) } ?? "\(id)"
    }
}
