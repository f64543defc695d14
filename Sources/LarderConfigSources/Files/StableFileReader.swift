import Glibc
import LarderDigest
import LarderEncoding
import LarderPlatform

/// Reads a file that other processes may be writing. All returned bytes belong to one version of the file.
struct StableFileReader {
    /// The name of the file, as passed to system calls.
    let name: [CChar]
    /// The descriptor of the directory to which ``name`` is relative.
    var directory = AT_FDCWD
    /// The path of the file, for messages.
    let path: String
    let maximumBytes: Int
    /// Whether the file must belong to root or to the agent's user, and be inaccessible to other users. A file of root
    /// may be readable by its group.
    var mustBePrivate = false

    /// The maximum number of attempts to read the file if it changes during each attempt.
    static let attempts = 5

    struct Reading {
        let bytes: [UInt8]
        let identity: FileIdentity
    }

    /// Reads the file. Tries again a few times if it changes during the read.
    func read() throws(FileReadError) -> Reading {
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
                dangling = try danglingLink(error.number)
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
                "it contains a secret but belongs to user \(status.st_uid); run: chown \(geteuid()) \(path.shellWord)")
        }
        // A file of root may be readable by its group, so that an agent that does not run as root can use the file.
        guard status.st_mode & (isRoots ? 0o037 : 0o077) == 0 else {
            throw FileReadError(
                .exposed, path,
                "it contains a secret that other users can read or change; run: "
                    + (isRoots && geteuid() != 0
                        ? "chgrp \(getegid()) \(path.shellWord) && chmod 640 \(path.shellWord)"
                        : "chmod 600 \(path.shellWord)"))
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

/// The part of a file status (stat(2)) that differs after a change of the file.
struct FileIdentity: Equatable {
    private let device: UInt64
    private let inode: UInt64
    private let size: Int64
    private let modified: [Int]
    private let changed: [Int]

    init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        modified = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
        changed = [status.st_ctim.tv_sec, status.st_ctim.tv_nsec]
    }
}

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

/// A digest of the names and contents of files.
///
/// Modification times would be cheaper, but they are not reliable. The kernel updates their clock only every few
/// milliseconds (on some file systems every two seconds), so two writes within that time have equal times.
package struct ContentDigest: Sendable, Hashable, CustomStringConvertible {
    private let digest: [UInt8]

    init(of files: [(name: String, bytes: [UInt8])]) {
        var hash = SHA256()
        // Larder 0.1 composed several files into one patch, later versions into two. The prefix makes the digest differ
        // from that of 0.1, so that the files are read again after an update.
        if files.count > 1 { hash.update("composed to two patches".utf8) }
        for (name, bytes) in files {
            // The length before each part ensures that different files never produce the same input to the hash.
            for part in [Array(name.utf8), bytes] {
                withUnsafeBytes(of: part.count) { hash.update($0) }
                hash.update(part)
            }
        }
        digest = hash.finalize()
    }

    /// `sha256:` and 64 hexadecimal digits.
    package var description: String { "sha256:" + digest.hex }
}
