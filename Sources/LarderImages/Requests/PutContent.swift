import CLinuxShims
internal import LarderPlatform
import Glibc

/// The bytes of an image from a client.
package enum PutContent: Sendable {
    case bytes([UInt8])
    case file(PassedInFile)
}

extension PutContent {
    /// Writes the content as a blob, to which the caller then holds a reference. A piece of a file is read once, even if it is
    /// written only after space was reclaimed.
    ///
    /// - Parameter check: called before each piece of a file; its error ends the put
    func write(
        to blobs: BlobStore, _ space: SpaceRetry, expectedDigest: BlobDigest?, check: () throws(ImageError) -> Void
    ) async throws(ImageError) -> PublishedBlob {
        let blocking = space.blocking
        let source: Source
        switch self {
        case .bytes(let bytes): source = .bytes(bytes)
        case .file(let file):
            source = .file(try await blocking.run { () throws(ImageError) in try file.reading() })
        }
        let size = source.size
        let writer = try await space.run { () throws(ImageError) in try blobs.begin(declaredLength: size) }
        do throws(ImageError) {
            try await source.append(to: writer, space, check: check)
            return try await blocking.run { () throws(ImageError) in try writer.finish(expectedDigest: expectedDigest) }
        } catch {
            await blocking.run { writer.discard() }
            throw error
        }
    }

    /// The content with a known size.
    private enum Source {
        case bytes([UInt8])
        case file(PassedInFile.Reading)

        var size: Int {
            switch self {
            case .bytes(let bytes): bytes.count
            case .file(let reading): reading.size
            }
        }

        func append(
            to writer: BlobWriter, _ space: SpaceRetry, check: () throws(ImageError) -> Void
        ) async throws(ImageError) {
            switch self {
            case .bytes(let bytes): try await space.run { () throws(ImageError) in try writer.append(bytes) }
            case .file(let reading):
                var offset = 0
                while offset < reading.size {
                    try check()
                    let chunk = try await space.blocking.run { [offset] () throws(ImageError) in
                        try reading.chunk(at: offset)
                    }
                    try await space.run { () throws(ImageError) in try writer.append(chunk) }
                    offset += chunk.count
                }
                try await space.blocking.run { () throws(ImageError) in try reading.checkUnchanged() }
            }
        }
    }
}

/// An open file of a client, which has to be in memory: reading any other could wait for a program or a host that serves it.
package final class PassedInFile: Sendable {
    /// The size and modification time, which show a change of the file. A change through a mapping may not show.
    fileprivate struct State: Equatable {
        var size: Int
        var seconds: Int
        var nanoseconds: Int
    }

    private let descriptor: CInt
    private let close: @Sendable (CInt) -> Void

    /// - Parameters:
    ///   - descriptor: belongs to this object from now on.
    ///   - close: called once with the descriptor, when the last reference goes.
    package init(_ descriptor: CInt, close: @escaping @Sendable (CInt) -> Void) {
        (self.descriptor, self.close) = (descriptor, close)
    }

    deinit { close(descriptor) }

    /// Whether the file of a descriptor is in memory: made by memfd_create(2), or on a tmpfs.
    package static func isInMemory(_ descriptor: CInt) -> Bool { larder_get_seals(descriptor) >= 0 }

    /// Checks that it is a file in memory that may be read.
    /// - Throws: ``ImageError/Code/unusableFile``
    func reading() throws(ImageError) -> Reading {
        guard Self.isInMemory(descriptor) else {
            throw ImageError(
                .unusableFile,
                "the descriptor is not one of a file in memory; copy the image to one of memfd_create(2), and pass that"
            )
        }
        let state = try state()
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, flags & O_ACCMODE != O_WRONLY else {
            throw ImageError(.unusableFile, "the descriptor is not open for reading; open the file with O_RDONLY")
        }
        return Reading(file: self, size: state.size, start: state)
    }

    /// A file of a known size that is read from its start.
    struct Reading: Sendable {
        private static let chunkBytes = 256 << 10

        fileprivate let file: PassedInFile
        let size: Int
        fileprivate let start: State

        fileprivate init(file: PassedInFile, size: Int, start: State) {
            (self.file, self.size, self.start) = (file, size, start)
        }

        /// Reads the next bytes. The position of the descriptor, which the client shares, does not change.
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

        /// Checks that the file has not changed since the start.
        /// - Throws: ``ImageError/Code/fileChanged``
        func checkUnchanged() throws(ImageError) {
            if try file.state() != start { throw changed }
        }

        private var changed: ImageError {
            ImageError(
                .fileChanged,
                "the file of \(size) bytes changed while it was read; write it completely before it is passed")
        }

        fileprivate static func unreadable(_ code: CInt) -> ImageError {
            ImageError(.unusableFile, "the file cannot be read: \(String(cString: strerror(code))); pass another one")
        }
    }

    private func state() throws(ImageError) -> State {
        var information = stat()
        guard uninterrupted({ fstat(descriptor, &information) }) == 0 else { throw Reading.unreadable(errno) }
        let time = information.st_mtim
        return State(size: Int(information.st_size), seconds: time.tv_sec, nanoseconds: time.tv_nsec)
    }
}
