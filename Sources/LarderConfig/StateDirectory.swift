internal import LarderUpstream
import Glibc

/// The state directory: held by one agent at a time, and with a random name for its life.
public final class StateDirectory: Sendable {
    /// Another agent holds the directory.
    public struct Locked: Error, CustomStringConvertible {
        public let path: String
        /// The process that holds it, where it could be read.
        public let holder: String
        /// One line.
        public var description: String {
            "another agent\(holder.isEmpty ? "" : " (pid \(holder))") uses the state directory \(path); "
                + "stop it, or give this one another directory with --state-directory"
        }
    }

    /// Sixteen hex digits that change when the directory is made anew, because revisions start anew then.
    public let epoch: String
    private let lock: CInt

    init(path: String, files: any FileSystem) throws {
        try files.createDirectory(path)
        let lockPath = path + "/lock"
        var descriptor = uninterrupted { open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o600) }
        let failure = errno
        // A file system that turned read-only after an error still has what is to be served.
        if descriptor < 0, failure == EROFS {
            descriptor = uninterrupted { open(lockPath, O_RDONLY | O_CLOEXEC) }
        }
        guard descriptor >= 0 else { throw FileError("open", lockPath, errno: failure) }
        guard uninterrupted({ flock(descriptor, LOCK_EX | LOCK_NB) }) == 0 else {
            let failure = errno
            close(descriptor)
            guard failure == EWOULDBLOCK else { throw FileError("lock", lockPath, errno: failure) }
            let holder = try files.read(lockPath) ?? []
            throw Locked(path: path, holder: String(decoding: holder.filter { $0 != 0x0A }, as: UTF8.self))
        }
        lock = descriptor
        let pid = Array("\(getpid())\n".utf8)
        // Only a hint for people: the lock itself is what counts, and it ends with the process.
        _ = ftruncate(descriptor, 0)
        _ = pid.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }

        let epochPath = path + "/epoch"
        if let bytes = try files.read(epochPath), let known = Self.epoch(in: bytes) {
            epoch = known
        } else {
            epoch = Self.newEpoch()
            try files.replace(epochPath, with: Array((epoch + "\n").utf8))
        }
    }

    deinit {
        // Closing alone would leave the claim with a child that is between fork(2) and execve(2).
        flock(lock, LOCK_UN)
        close(lock)
    }

    /// A name that no other life has.
    static func newEpoch() -> String {
        let digits = String(UInt64.random(in: .min ... .max), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    private static func epoch(in bytes: [UInt8]) -> String? {
        let text = String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
        let isHex = text.utf8.allSatisfy { ($0 >= 0x30 && $0 <= 0x39) || ($0 >= 0x61 && $0 <= 0x66) }
        return text.utf8.count == 16 && isHex ? text : nil
    }
}
