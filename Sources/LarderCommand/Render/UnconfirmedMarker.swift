import Glibc
import LarderDigest
import LarderEncoding
import LarderJSON
import LarderPlatform

/// A marker file next to an output. It exists from shortly before a new file replaces the output until the check and
/// the command after the change have succeeded. If larder is killed, the marker remains, and the next run restores the
/// previous file.
///
/// The marker contains one line of JSON, and is locked as long as the process that created it is running. ``Candidate``
/// removes it.
final class UnconfirmedMarker: Sendable {
    private let path: String
    private let lock: LockedFile

    private static func path(for output: String) -> String {
        let (directory, name) = splitPath(output)
        return "\(directory)/.\(name).larder-unconfirmed"
    }

    /// Creates the marker of an output. It is locked and complete before it becomes visible under its name.
    /// - Parameters:
    ///   - content: the bytes of the new file.
    ///   - file: the temporary path of the new file; nil if that file is in place.
    ///   - copy: the copy of the previous file; nil if there was no previous file.
    ///   - inherited: the existing marker that this one replaces, whose lock this process holds; nil for none.
    /// - Returns: nil if a marker exists because another process is replacing the same output, or if it cannot be
    ///   created.
    init?(for output: String, content: [UInt8], file: String?, copy: String?, replacing inherited: UnconfirmedMarker?) {
        let path = Self.path(for: output)
        guard let temporary = HiddenFile(beside: output) else { return nil }
        var members: [(String, JSONValue)] = [("sha256", .string(Self.digest(of: content)))]
        if let file { members.append(("new", .string(splitPath(file).name))) }
        if let copy { members.append(("previous", .string(splitPath(copy).name))) }
        let text = JSONValue.object(members).compactText + "\n"
        let writer = temporary.openForWriting()
        defer { close(writer) }
        let isWritten = Array(text.utf8).withUnsafeBytes { Output.writeAll($0, to: writer) } == 0 && fsync(writer) == 0
        let isCreated =
            isWritten && (inherited == nil ? link(temporary.path, path) : rename(temporary.path, path)) == 0
        if !isCreated || inherited == nil { unlink(temporary.path) }
        guard isCreated else { return nil }
        self.path = path
        lock = temporary.lock
    }

    private init(path: String, lock: LockedFile) {
        self.path = path
        self.lock = lock
    }

    /// Makes ``Candidate`` remove the marker when the new file is accepted, or when the previous state of the output is
    /// restored.
    func removeWithCandidate() { Candidate.mark(path) }

    /// Whether an output has a marker, which may belong to any process or user.
    static func exists(for output: String) -> Bool { access(path(for: output), F_OK) == 0 }

    /// Removes the marker, because the file in place is confirmed.
    func remove() { unlink(path) }

    /// The state of an output after the recovery.
    enum Recovery {
        /// There was nothing to restore: no process was killed before it had confirmed its file, or another file has
        /// replaced that file since.
        case none
        /// The previous file was restored, or the new file was removed because there was no previous file.
        case restored
        /// The unconfirmed file stays in place with its marker, because the previous file cannot be restored. `reason`
        /// says why.
        case unconfirmed(UnconfirmedMarker, reason: String)
    }

    /// Restores the previous file if the process that replaced it was killed before it confirmed the new one.
    static func recover(_ output: String) -> Recovery {
        let path = path(for: output)
        let descriptor = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return .none }
        let marker = UnconfirmedMarker(path: path, lock: LockedFile(descriptor))
        var (opened, named) = (stat(), stat())
        // If the lock is held, the process that created the marker is still running. That process removes the marker
        // before it releases the lock, so the marker may be gone now. The owner is checked, because in a directory such
        // as /tmp the marker may belong to another user.
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0, fstat(descriptor, &opened) == 0, lstat(path, &named) == 0,
            opened.st_ino == named.st_ino, opened.st_dev == named.st_dev, opened.st_mode & S_IFMT == S_IFREG,
            opened.st_uid == geteuid(), opened.st_mode & 0o022 == 0
        else { return .none }
        guard let bytes = try? Input.contents(of: path), let content = try? JSONValue(parsing: bytes) else {
            marker.remove()
            return .none
        }
        let directory = splitPath(output).directory
        func sibling(_ member: String) -> String? {
            guard let name = content[member]?.string, name.hasPrefix("."), !name.contains("/") else { return nil }
            return "\(directory)/\(name)"
        }
        // Compare the content with the marker's digest, because a user may have edited the file after it was put in
        // place, and editing need not change the inode.
        let isInPlace = isFile(output) && (try? digest(of: Input.contents(of: output))) == content["sha256"]?.string
        let previous = sibling("previous")
        if isInPlace {
            let isRestored = (previous.map { rename($0, output) } ?? unlink(output)) == 0
            if !isRestored {
                let reason = errno == ENOENT ? "is missing" : "cannot be restored: \(String(cString: strerror(errno)))"
                return .unconfirmed(marker, reason: reason)
            }
        } else if let previous {
            unlink(previous)
        }
        if let new = sibling("new") { unlink(new) }
        marker.remove()
        return isInPlace ? .restored : .none
    }

    private static func isFile(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }

    private static func digest(of bytes: [UInt8]) -> String { SHA256.hash(bytes).hex }
}
