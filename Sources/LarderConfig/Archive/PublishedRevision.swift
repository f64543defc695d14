import CLinuxShims
import LarderUpstream
import Synchronization
import Glibc

/// The revision that a namespace published last, where it outlives the process but not the machine: in a file in memory
/// (tmpfs), as a runtime directory has it.
///
/// What came from a source is published before it is on disk, so that after a crash the disk alone cannot tell whether
/// somebody saw a later revision: numbering then has to go on behind everything that was reserved. After a crash of the
/// agent, and not of the machine, this file tells it exactly.
///
/// It is believed only if it names the epoch, and the bound that is reserved on the disk: whoever publishes a revision that is
/// not on the disk has reserved a higher bound before, so that a file which another agent has not kept up to date names
/// another one.
final class PublishedRevision: Sendable {
    private static let textBytes = 64

    private let directory: String
    private let path: String
    private let epoch: String
    private let file = Mutex(File.notOpen)

    private enum File {
        case notOpen
        case open(CInt)
        /// It would be on a disk, where the write could have to wait, and what is read after a power failure could be old.
        case onDisk
    }

    /// - Parameters:
    ///   - directory: the runtime directory; it need not be there.
    ///   - epoch: the life of the state directory.
    init(directory: String, namespace: String, epoch: String) {
        self.directory = directory
        path = directory + "/" + namespace
        self.epoch = epoch
    }

    deinit { file.withLock { if case .open(let descriptor) = $0 { close(descriptor) } } }

    /// The revision, if the file is to be believed.
    /// - Parameter reservedBound: what is reserved on the disk.
    func last(reservedBound: Int) -> Int? {
        guard isOurs else { return nil }
        let descriptor = uninterrupted { open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) }
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        guard larder_is_memory_file(descriptor) == 1 else { return nil }
        let bytes = [UInt8](unsafeUninitializedCapacity: Self.textBytes + 1) { buffer, count in
            count = max(0, uninterrupted { pread(descriptor, buffer.baseAddress, buffer.count, 0) })
        }
        guard bytes.count == Self.textBytes, bytes.last == UInt8(ascii: "\n") else { return nil }
        let words = bytes.split(whereSeparator: { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\n") })
            .map { String(decoding: $0, as: UTF8.self) }
        guard words.count == 3, words[0] == epoch, Int(words[1]) == reservedBound, let revision = Int(words[2]) else {
            return nil
        }
        return SnapshotArchive.possibleNumbers.contains(revision) ? revision : nil
    }

    /// Notes a revision, before anybody sees it. Where that fails, nothing is left that could be believed.
    func note(_ revision: Int, reservedBound: Int) {
        file.withLock { file in
            if case .notOpen = file { file = create() }
            guard case .open(let descriptor) = file else { return }
            let words = "\(epoch) \(reservedBound) \(revision)"
            let text = words + String(repeating: " ", count: max(0, Self.textBytes - 1 - words.utf8.count)) + "\n"
            let bytes = Array(text.utf8)
            let written = uninterrupted { pwrite(descriptor, bytes, bytes.count, 0) }
            if bytes.count == Self.textBytes, written == bytes.count { return }
            _ = ftruncate(descriptor, 0)
            unlink(path)
            close(descriptor)
            file = .notOpen
        }
    }

    /// Whether the directory is one that nobody else can have put anything into.
    private var isOurs: Bool {
        var status = stat()
        return lstat(directory, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid()
            && status.st_mode & 0o022 == 0
    }

    /// Opens the file for writing.
    private func create() -> File {
        mkdir(directory, 0o700)
        guard isOurs else { return .notOpen }
        let descriptor = uninterrupted { open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600) }
        guard descriptor >= 0 else { return .notOpen }
        if larder_is_memory_file(descriptor) == 1 { return .open(descriptor) }
        close(descriptor)
        unlink(path)
        return .onDisk
    }
}
