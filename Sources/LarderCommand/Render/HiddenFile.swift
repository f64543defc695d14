import Glibc
import LarderPlatform

/// A temporary file with a hidden name next to an output. It exists as long as the process that created it needs it.
///
/// The file is locked (flock(2)) as long as that process is running. If the process is killed, the file remains without
/// the lock, and the next run deletes it with ``removeAbandoned(beside:owners:)``.
struct HiddenFile: Sendable {
    let path: String
    let lock: LockedFile

    /// The directory, and the parts of the name before and after the random letters. The extension is that of the
    /// output, because a checking program may derive the syntax from it. The name is hidden, because programs that read
    /// a directory such as `conf.d` skip hidden files.
    private static func pattern(for output: String) -> (directory: String, start: String, ending: String) {
        let (directory, name) = splitPath(output)
        let dot = name.dropFirst().lastIndex(of: ".") ?? name.endIndex
        return (directory, ".\(name[..<dot]).larder-", String(name[dot...]))
    }

    private static let letters = 6

    /// Creates an empty file with mode 0600.
    /// - Returns: nil if it cannot be created; `errno` has the reason.
    init?(beside output: String) {
        let (directory, start, ending) = Self.pattern(for: output)
        while true {
            let letters = String(repeating: "X", count: Self.letters)
            var template = "\(directory)/\(start)\(letters)\(ending)".utf8CString.map { $0 }
            let made = mkstemps(&template, CInt(ending.utf8.count))
            guard made >= 0 else { return nil }
            close(made)
            let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
            // The descriptor is read-only, because a check may execute this file, and a file that is open for writing
            // cannot be executed.
            let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
            if descriptor < 0 {
                // Another process deleted the file, because this process had not locked it yet.
                if errno == ENOENT { continue }
                return nil
            }
            _ = uninterrupted { flock(descriptor, LOCK_EX) }
            var status = stat()
            if fstat(descriptor, &status) == 0, status.st_nlink == 0 {
                close(descriptor)
                continue
            }
            lock = LockedFile(descriptor)
            self.path = path
            return
        }
    }

    func openForWriting() -> CInt { open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC) }

    /// Deletes the hidden files of processes that were killed.
    /// - Parameter owners: the users whose files are deleted.
    static func removeAbandoned(beside output: String, owners: Set<uid_t>) {
        let (directory, start, ending) = pattern(for: output)
        let listing = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard listing >= 0, let names = try? DirectoryListing.names(closing: listing) else { return }
        for name in names.map({ String(decoding: $0, as: UTF8.self) }) {
            guard name.hasPrefix(start), name.hasSuffix(ending),
                name.utf8.count == start.utf8.count + letters + ending.utf8.count,
                name.dropFirst(start.count).prefix(letters).allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber) })
            else { continue }
            remove("\(directory)/\(name)", owners)
        }
    }

    private static func remove(_ path: String, _ owners: Set<uid_t>) {
        let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, owners.contains(status.st_uid),
            flock(descriptor, LOCK_EX | LOCK_NB) == 0
        else { return }
        unlink(path)
    }
}

/// An open, locked file. When the last reference to this object is released, the file is closed, which also releases
/// the lock.
final class LockedFile: Sendable {
    private let descriptor: CInt

    init(_ descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(descriptor) }
}
