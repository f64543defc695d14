import CLinuxShims
import Glibc

/// A file in memory that nobody can change any more (memfd_create(2), fcntl(2) "File Sealing").
public final class SealedFile: Sendable {
    /// Its descriptor, close-on-exec; closed with the last reference.
    public let descriptor: CInt
    /// Its length in bytes.
    public let byteCount: Int

    /// Makes a file, has it written, and seals it.
    ///
    /// - Parameters:
    ///   - name: what it is called in /proc/PID/fd and /proc/PID/maps
    ///   - write: writes it; the memory is all zeros before
    /// - Throws: `systemFailed`
    public init(
        byteCount: Int, name: String, _ write: (UnsafeMutableRawBufferPointer) -> Void
    ) throws(SnapshotFileError) {
        let descriptor = larder_memfd_create(name)
        guard descriptor >= 0 else { throw Self.failed("make a file in memory") }
        do throws(SnapshotFileError) {
            if byteCount > 0 { try Self.fill(descriptor, byteCount, write) }
            // Who is passed it can open it anew through /proc, for reading only.
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
        // All of its memory now: without any left, a write through a mapping would end this process by SIGBUS.
        let code = posix_fallocate(descriptor, 0, off_t(byteCount))
        guard code == 0 else { throw failed("find memory for a file of \(byteCount) bytes", code) }
        guard let start = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), start != MAP_FAILED
        else { throw failed("map a file in memory") }
        write(UnsafeMutableRawBufferPointer(start: start, count: byteCount))
        // A file that can be written through a mapping cannot be sealed.
        munmap(start, byteCount)
    }

    static func failed(_ what: String, _ code: CInt = errno) -> SnapshotFileError {
        SnapshotFileError(.systemFailed, "cannot \(what): \(String(cString: strerror(code)))")
    }
}
