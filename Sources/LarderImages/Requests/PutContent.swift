import CLinuxShims
internal import LarderPlatform
import Glibc

/// The content of an image that a client stores.
package enum PutContent: Sendable {
    case bytes([UInt8])
    case file(PassedInFile)

    /// Writes the content to a blob, and returns the blob with a reference to it, which the caller must release. Each
    /// chunk of a file is read only once, even if writing the chunk has to wait for disk space.
    ///
    /// - Parameter check: called before each chunk of a file. If it throws, the put fails with that error
    func write(
        to disk: ImageDiskCache, _ space: SpaceRetry, expectedDigest: BlobDigest?, check: () throws(ImageError) -> Void
    ) async throws(ImageError) -> PublishedBlob {
        let blocking = space.blocking
        var (bytes, reading) = ([UInt8](), PassedInFile.Reading?.none)
        switch self {
        case .bytes(let content): bytes = content
        case .file(let file): reading = try await blocking.run { () throws(ImageError) in try file.reading() }
        }
        let size = reading?.size ?? bytes.count
        let writer = try await space.run { [writers = disk.writers] () throws(ImageError) in
            try writers.begin(declaredLength: size)
        }
        do throws(ImageError) {
            if let reading {
                var offset = 0
                while offset < size {
                    try check()
                    let chunk = try await blocking.run { [offset] () throws(ImageError) in
                        try reading.chunk(at: offset)
                    }
                    try await space.run { () throws(ImageError) in try writer.append(chunk) }
                    offset += chunk.count
                }
                try await blocking.run { () throws(ImageError) in try reading.checkUnchanged() }
            } else {
                try await space.run { [bytes] () throws(ImageError) in try writer.append(bytes) }
            }
            return try await disk.publish(writer, expectedDigest: expectedDigest)
        } catch {
            await blocking.run { writer.discard() }
            throw error
        }
    }
}

/// A file that a client has opened. It must be in memory, because reading any other file could block on another program
/// or host.
package final class PassedInFile: Sendable {
    /// The size and modification time, which detect most changes of the file. A change through a memory mapping may go
    /// unnoticed.
    fileprivate struct State: Equatable {
        var size: Int
        var seconds: Int
        var nanoseconds: Int
    }

    private let descriptor: CInt
    private let close: @Sendable (CInt) -> Void

    /// - Parameters:
    ///   - descriptor: the file. This object takes ownership
    ///   - close: closes the descriptor. Called once, when the object is deallocated
    package init(_ descriptor: CInt, close: @escaping @Sendable (CInt) -> Void) {
        (self.descriptor, self.close) = (descriptor, close)
    }

    deinit { close(descriptor) }

    /// Whether a descriptor refers to a file in memory, created by memfd_create(2) or on a tmpfs.
    package static func isInMemory(_ descriptor: CInt) -> Bool { larder_get_seals(descriptor) >= 0 }

    /// Checks that the file is in memory and readable.
    ///
    /// - Throws: ``ImageError/Code/unusableFile``
    func reading() throws(ImageError) -> Reading {
        guard Self.isInMemory(descriptor) else {
            throw ImageError(
                .unusableFile,
                "the descriptor is not a file in memory; copy the image to a file of memfd_create(2) and pass that"
            )
        }
        let state = try state()
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, flags & O_ACCMODE != O_WRONLY else {
            throw ImageError(.unusableFile, "the descriptor is not open for reading; open the file with O_RDONLY")
        }
        return Reading(file: self, start: state)
    }

    /// A file of known size, to be read from its start.
    struct Reading: Sendable {
        private static let chunkBytes = 256 << 10

        fileprivate let file: PassedInFile
        fileprivate let start: State

        var size: Int { start.size }

        /// Reads the chunk at `offset`. Does not change the file position, which the client's descriptor shares.
        ///
        /// - Throws: ``ImageError/Code/fileChanged`` if the file has become shorter; ``ImageError/Code/unusableFile``
        func chunk(at offset: Int) throws(ImageError) -> [UInt8] {
            let length = min(Self.chunkBytes, size - offset)
            var (count, code): (Int, CInt) = (0, 0)
            let bytes = [UInt8](unsafeUninitializedCapacity: length) { buffer, initialized in
                count = uninterrupted { pread(file.descriptor, buffer.baseAddress, length, off_t(offset)) }
                code = errno
                initialized = max(0, count)
            }
            guard count >= 0 else { throw Self.unreadable(code) }
            guard count > 0 else { throw changed }
            return bytes
        }

        /// Checks that the size and modification time have not changed since reading began.
        ///
        /// - Throws: ``ImageError/Code/fileChanged``
        func checkUnchanged() throws(ImageError) {
            if try file.state() != start { throw changed }
        }

        private var changed: ImageError {
            ImageError(
                .fileChanged,
                "the file of \(size) bytes changed while it was read; write it completely before passing it")
        }

        fileprivate static func unreadable(_ code: CInt) -> ImageError {
            ImageError(.unusableFile, "cannot read the file: \(String(cString: strerror(code))); pass another one")
        }
    }

    private func state() throws(ImageError) -> State {
        var information = stat()
        guard uninterrupted({ fstat(descriptor, &information) }) == 0 else { throw Reading.unreadable(errno) }
        let time = information.st_mtim
        return State(size: Int(information.st_size), seconds: time.tv_sec, nanoseconds: time.tv_nsec)
    }
}
