import CLinuxShims
import Glibc

/// A file in memory that cannot be changed (memfd_create(2), fcntl(2) "File Sealing").
public final class SealedFile: Sendable {
    /// The descriptor of the file, close-on-exec. It is closed when the last reference to this object is released.
    public let descriptor: CInt
    /// The length of the file in bytes.
    public let byteCount: Int

    /// Creates a file, fills it with `write`, and seals it.
    ///
    /// - Parameters:
    ///   - byteCount: the length of the file
    ///   - name: the name shown in /proc/PID/fd and /proc/PID/maps
    ///   - write: fills the memory of the file, which initially is zero
    /// - Throws: `systemFailed`
    public init(
        byteCount: Int, name: String, _ write: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(SnapshotFileError) {
        let descriptor = larder_memfd_create(name)
        guard descriptor >= 0 else { throw Self.failed("create a file in memory") }
        do throws(SnapshotFileError) {
            if byteCount > 0 { try Self.fill(descriptor, byteCount, write) }
            // Processes that receive the descriptor can reopen the file through /proc. The mode lets them open it only
            // for reading.
            guard fchmod(descriptor, 0o444) == 0, larder_add_seals(descriptor, CInt(LARDER_SEAL_ALL)) == 0 else {
                throw Self.failed("seal a file in memory")
            }
        } catch {
            close(descriptor)
            throw error
        }
        (self.descriptor, self.byteCount) = (descriptor, byteCount)
    }

    deinit { close(descriptor) }

    private static func fill(
        _ descriptor: CInt, _ byteCount: Int, _ write: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(SnapshotFileError) {
        // Allocate all memory now. If the system ran out of memory during a write through the mapping, SIGBUS would
        // kill this process.
        let code = posix_fallocate(descriptor, 0, off_t(byteCount))
        guard code == 0 else { throw failed("allocate \(byteCount) bytes for a file in memory", code) }
        guard let start = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), start != MAP_FAILED
        else { throw failed("map a file in memory") }
        write(UnsafeMutableRawBufferPointer(start: start, count: byteCount))
        // A file with a writable mapping cannot be sealed.
        munmap(start, byteCount)
    }

    static func failed(_ what: String, _ code: CInt = errno) -> SnapshotFileError {
        SnapshotFileError(.systemFailed, "cannot \(what): \(String(cString: strerror(code)))")
    }
}
