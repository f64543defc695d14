import CLinuxShims

#if canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// A file in memory that nobody can change any more (memfd_create(2), fcntl(2) "File Sealing").
public final class SealedFile: Sendable {
    /// Its descriptor, close-on-exec; closed with the last reference.
    public let descriptor: CInt
    /// Its length in bytes.
    public let byteCount: Int

    /// Makes a file of these bytes and seals it.
    /// - Throws: `systemFailed`
    public init(_ bytes: [UInt8], name: String) throws(SnapshotFileError) {
        let descriptor = larder_memfd_create(name)
        guard descriptor >= 0 else { throw Self.failed("make a file in memory") }
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { write(descriptor, $0.baseAddress! + written, $0.count - written) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                let error = Self.failed("write a file in memory")
                close(descriptor)
                throw error
            }
            written += count
        }
        guard larder_add_seals(descriptor, CInt(LARDER_SEAL_ALL)) == 0 else {
            let error = Self.failed("seal a file in memory")
            close(descriptor)
            throw error
        }
        // Whoever is passed it can open it anew through /proc, for reading only.
        fchmod(descriptor, 0o444)
        self.descriptor = descriptor
        byteCount = bytes.count
    }

    deinit { close(descriptor) }

    static func failed(_ what: String) -> SnapshotFileError {
        SnapshotFileError(.systemFailed, "cannot \(what): \(String(cString: strerror(errno)))")
    }
}
