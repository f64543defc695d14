import CLinuxShims
import Glibc
import JSON

/// A file beside an output whose new file is in place, or about to be, and not confirmed yet by the check or the command after
/// it. If larder is killed, the marker stays, and the next call puts the previous file back.
///
/// It is locked as long as the process that made it lives, and removed by ``Candidate``. It is a line of JSON.
final class UnconfirmedMarker: Sendable {
    private let descriptor: CInt

    deinit { close(descriptor) }

    private static func path(for output: String) -> String {
        let (directory, name) = RenderedFile.split(output)
        return "\(directory)/.\(name).larder-unconfirmed"
    }

    /// Makes the marker of an output.
    /// - Parameters:
    ///   - file: the new file, at its temporary path.
    ///   - copy: the copy of the previous file; nil if there was none.
    /// - Returns: nil if there is one already, because another process is replacing the same output, or if it cannot be made.
    init?(for output: String, file: String, copy: String?) {
        var status = stat()
        let path = Self.path(for: output)
        let temporary = path + ".\(getpid())"
        guard lstat(file, &status) == 0 else { return nil }
        let descriptor = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return nil }
        let text =
            JSONValue.building { writer in
                writer.beginObject()
                writer.member("device", Int(status.st_dev))
                writer.member("inode", Int(status.st_ino))
                writer.member("new", String(RenderedFile.split(file).name))
                if let copy { writer.member("previous", String(RenderedFile.split(copy).name)) }
                writer.endObject()
            }.compactText + "\n"
        let isWritten = Array(text.utf8).withUnsafeBytes { Output.writeAll($0, to: descriptor) } == 0
        // It is locked and whole before it has its name.
        let isMade =
            isWritten && flock(descriptor, LOCK_EX | LOCK_NB) == 0 && fsync(descriptor) == 0
            && link(temporary, path) == 0
        unlink(temporary)
        guard isMade else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
        Candidate.mark(path)
    }

    /// Puts the previous file back if the process that replaced it was killed before the new one was confirmed.
    /// - Returns: whether there was such a process.
    static func recover(_ output: String) -> Bool {
        let path = path(for: output)
        let descriptor = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var (opened, named, current) = (stat(), stat(), stat())
        // A process that lives has the lock, and removes the marker before it gives the lock up. In a directory such as /tmp a
        // marker may be another user's.
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0, fstat(descriptor, &opened) == 0, lstat(path, &named) == 0,
            opened.st_ino == named.st_ino, opened.st_dev == named.st_dev, opened.st_mode & S_IFMT == S_IFREG,
            opened.st_uid == geteuid(), opened.st_mode & 0o022 == 0
        else { return false }
        guard let bytes = try? Input.contents(of: path), let content = try? JSONValue(parsing: bytes) else {
            unlink(path)
            return false
        }
        let directory = RenderedFile.split(output).directory
        func sibling(_ member: String) -> String? {
            guard let name = content[member]?.string, name.hasPrefix("."), !name.contains("/") else { return nil }
            return "\(directory)/\(name)"
        }
        let isInPlace =
            lstat(output, &current) == 0 && Int(current.st_ino) == content["inode"]?.int
            && Int(current.st_dev) == content["device"]?.int
        let previous = sibling("previous")
        if isInPlace {
            guard (previous.map { rename($0, output) } ?? unlink(output)) == 0 || errno == ENOENT else { return false }
        } else if let previous {
            unlink(previous)
        }
        if let new = sibling("new") { unlink(new) }
        unlink(path)
        return isInPlace
    }
}
