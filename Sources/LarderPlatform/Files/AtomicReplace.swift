import Glibc
package import SystemPackage

/// Replaces a file in one step: readers see either the complete previous content or the complete new content.
///
/// Write the content, then call ``replace(synchronizing:)``. If this value is destroyed before that call has succeeded,
/// the new file is removed and the previous file stays.
package struct AtomicReplace: ~Copyable {
    /// A step that failed.
    package struct Failure: Error {
        package enum Step: String, Sendable {
            case create, write
            case synchronize = "fsync"
            case rename
        }

        package let step: Step
        package let error: Errno
    }

    /// The descriptor of the new file, open for writing.
    package let descriptor: CInt
    private let directory: CInt
    private let name: String
    private let temporary: String
    private var isInPlace = false

    /// Creates the new file. If a file named `temporary` exists, it is removed first: a killed process may have left
    /// it. Symbolic links at either name are not followed.
    ///
    /// - Parameters:
    ///   - name: the final name
    ///   - temporary: the name of the new file until ``replace(synchronizing:)`` renames it; on the same file system as
    ///     `name`
    ///   - directory: the open directory that relative names are resolved in; `AT_FDCWD` for the working directory
    ///   - mode: the permission bits of the new file, before the umask is applied
    package init(
        _ name: String, temporary: String, in directory: CInt = AT_FDCWD, mode: UInt32
    ) throws(Failure) {
        func create() -> CInt {
            uninterrupted { openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode) }
        }
        var created = create()
        if created < 0, errno == EEXIST, uninterrupted({ unlinkat(directory, temporary, 0) }) == 0 {
            created = create()
        }
        guard created >= 0 else { throw Failure(step: .create, error: .current) }
        descriptor = created
        (self.directory, self.name, self.temporary) = (directory, name, temporary)
    }

    deinit {
        close(descriptor)
        if !isInPlace { unlinkat(directory, temporary, 0) }
    }

    /// Appends bytes to the new file.
    package func write(_ bytes: [UInt8]) throws(Failure) {
        do throws(Errno) {
            try writeAll(bytes, to: descriptor)
        } catch {
            throw Failure(step: .write, error: error)
        }
    }

    /// Renames the new file to its final name.
    ///
    /// - Parameter synchronizing: whether the content must be on disk first (fsync(2)). The rename itself is not
    ///   synchronized; see ``synchronizeDirectory(_:)``.
    package mutating func replace(synchronizing: Bool) throws(Failure) {
        if synchronizing, uninterrupted({ fsync(descriptor) }) != 0 {
            throw Failure(step: .synchronize, error: .current)
        }
        guard uninterrupted({ renameat(directory, temporary, directory, name) }) == 0 else {
            throw Failure(step: .rename, error: .current)
        }
        isInPlace = true
    }
}

/// Flushes a directory to disk (fsync(2)), so that names that were created or replaced in it survive a power failure.
package func synchronizeDirectory(_ path: String) throws(Errno) {
    let descriptor = uninterrupted { open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    guard descriptor >= 0 else { throw .current }
    defer { close(descriptor) }
    guard uninterrupted({ fsync(descriptor) }) == 0 else { throw .current }
}

/// Reads to the end of a file.
///
/// - Parameter limit: the number of bytes after which it may stop, with more bytes than that
package func readAll(from descriptor: CInt, upTo limit: Int = .max) throws(Errno) -> [UInt8] {
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 1 << 16)
    while bytes.count <= limit {
        let count = uninterrupted { read(descriptor, &piece, piece.count) }
        guard count >= 0 else { throw .current }
        if count == 0 { break }
        bytes += piece[..<count]
    }
    return bytes
}

/// Writes all bytes, with as many system calls as necessary.
///
/// - Parameter offset: the offset in the file (pwrite(2)); nil to write at the current position (write(2))
package func writeAll(_ bytes: [UInt8], to descriptor: CInt, at offset: Int? = nil) throws(Errno) {
    let failure = bytes.withUnsafeBytes { bytes -> Errno? in
        var written = 0
        while written < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[written...])
            let count = uninterrupted {
                if let offset { return pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset + written)) }
                return write(descriptor, rest.baseAddress, rest.count)
            }
            guard count > 0 else { return count == 0 ? .ioError : .current }
            written += count
        }
        return nil
    }
    if let failure { throw failure }
}
