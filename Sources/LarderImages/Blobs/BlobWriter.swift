internal import LarderDigest
internal import LarderImageFormats
internal import LarderPlatform
internal import Synchronization

/// An image whose bytes are complete and durable, under a temporary name. ``BlobFiles/publish(_:)`` completes it.
struct SealedBlob: Sendable {
    /// The name of the temporary file.
    let name: String
    let blob: PublishedBlob
    /// The disk space of the file.
    let bytes: Int
    /// The bytes that the writer reserved.
    let reserved: Int
}

/// Creates the writers of a ``BlobStore``, on any thread.
struct BlobWriters: Sendable {
    let files: any DirectoryFiles
    let accounts: BlobAccounts
    /// A random prefix that distinguishes the temporary files of this process from those of an earlier process.
    let session = String(UInt64.random(in: .min ... .max), radix: 16)

    /// Creates a writer for a new image. Space is reserved as bytes arrive, not for the declared length.
    ///
    /// - Parameter declaredLength: the length of the body in bytes; nil if the origin does not declare it or a content
    ///   coding changes it
    /// - Throws: ``ImageError/Code/tooLarge``; ``ImageError/Code/cacheFull``, without a ``SpaceShortage``, if the declared
    ///   length does not fit beside the leased and pinned images; ``ImageError/Code/storageFailed``
    func begin(declaredLength: Int? = nil) throws(ImageError) -> BlobWriter {
        try BlobWriter(self, declaredLength: declaredLength)
    }

    func freeBytes() throws(ImageError) -> Int {
        do throws(FileError) { return try files.freeBytes() } catch { throw error.asImageError }
    }

    /// The minimum number of images and bytes to evict to comply with the limits again. The limits can be exceeded
    /// because they were lowered, or because other files filled the disk. Nil if they are not exceeded.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    func excess() throws(ImageError) -> SpaceShortage? {
        let free = try freeBytes()
        return accounts.excess(free: free)
    }
}

/// Writes an image to a temporary file while it hashes the bytes, checks the limits and reads the header. Only one
/// caller at a time may use a writer. If the writer is released without ``seal(expectedDigest:)``, the file is removed.
final class BlobWriter: Sendable {
    private struct State {
        /// The temporary file. Nil until disk space for the first bytes is reserved.
        var file: (any DirectoryFile)?
        /// Whether the image was published or discarded.
        var isEnded = false
        var hash = SHA256()
        var reader = ImageHeaderReader()
        var end = TruncationDetector()
        var written = 0
        /// Reserved bytes. A writer with reserved bytes also counts as one image towards the maximum number of images.
        var reserved = 0
    }

    private let blobs: BlobWriters
    /// The name of the temporary file.
    private let name: String
    private let declaredLength: Int?
    // A mutex, because the steps of a writer run on different threads of ``BlockingThreadPool``, and any thread may release
    // the writer. Only its caller waits for it.
    private let state = Mutex(State())

    /// Creates a writer if there is, or can be, space for the declared length; see
    /// ``BlobWriters/begin(declaredLength:)``.
    init(_ blobs: BlobWriters, declaredLength: Int?) throws(ImageError) {
        let length = max(0, declaredLength ?? 0)
        let limit = blobs.accounts.limits.bytesPerImage
        guard length <= limit else { throw Self.tooLarge(length, limit: limit) }
        let free = try blobs.freeBytes()
        let number = try blobs.accounts.addWriter(length, free: free)
        self.blobs = blobs
        self.declaredLength = declaredLength
        name = "tmp/\(blobs.session)-\(number)"
    }

    deinit { discard() }

    /// The number of bytes written.
    var written: Int { state.withLock { $0.written } }

    /// Writes the next bytes: all of them or none.
    ///
    /// - Throws: ``ImageError/Code/cacheFull``: call again with the same bytes after images have been evicted. All other
    ///   errors are final: ``ImageError/Code/tooLarge``, ``ImageError/Code/lengthMismatch``, the errors of
    ///   ``ImageHeaderReader`` and ``ImageLimits``, ``ImageError/Code/storageFailed``
    func append(_ bytes: [UInt8]) throws(ImageError) {
        try state.withLock { state throws(ImageError) in
            guard !state.isEnded else { throw Self.ended }
            if bytes.isEmpty { return }
            let total = state.written + bytes.count
            if let declaredLength, total > declaredLength {
                throw ImageError(
                    .lengthMismatch, "the body is longer than the declared \(declaredLength) bytes")
            }
            let limit = blobs.accounts.limits.bytesPerImage
            guard total <= limit else { throw Self.tooLarge(total, limit: limit) }
            // Check the header before any byte is written, so that bytes that are not an image never take disk space.
            switch state.reader.progress {
            case .needMore:
                var reader = state.reader
                switch reader.feed(bytes) {
                case .needMore: break
                // A PNG may have fewer frames than its header declares, so only one is checked before they are counted.
                case .found(let header): try check(header.type == .png ? header.limited(toFrames: 1) : header)
                case .rejected(let error): throw ImageError(error)
                }
                try reserve(total, &state)
                state.reader = reader
            default: try reserve(total, &state)
            }
            do throws(FileError) {
                if state.file == nil { state.file = try blobs.files.create(name) }
                try state.file?.append(bytes)
            } catch {
                // Part of the bytes may have been written, so the caller cannot retry.
                end(&state)
                remove(state)
                throw error.asImageError
            }
            blobs.accounts.wrote(bytes.count)
            state.hash.update(bytes)
            state.end.feed(bytes)
            state.written = total
        }
    }

    /// Makes the bytes of the image durable (fsync(2)) if its length, digest, header and end are valid.
    ///
    /// - Parameter expectedDigest: the digest that the caller expects, if any
    /// - Throws: ``ImageError``. The temporary file is then removed
    func seal(expectedDigest: BlobDigest? = nil) throws(ImageError) -> SealedBlob {
        try state.withLock { state throws(ImageError) in
            guard !state.isEnded else { throw Self.ended }
            defer { end(&state) }
            do throws(ImageError) {
                let blob = try check(&state, expectedDigest)
                guard let file = state.file else { throw Self.ended }
                let reserved = state.reserved
                return try ImageError.from { () throws(FileError) in
                    try file.seal()
                    // Measured after fsync(2), because a file system may allocate blocks only then.
                    return SealedBlob(name: name, blob: blob, bytes: try file.allocatedBytes(), reserved: reserved)
                }
            } catch {
                remove(state)
                throw error
            }
        }
    }

    /// Discards the image and removes its file. Does nothing after ``seal(expectedDigest:)``.
    func discard() {
        state.withLock { state in
            guard !state.isEnded else { return }
            end(&state)
            remove(state)
        }
    }

    private func end(_ state: inout State) { (state.isEnded, state.file) = (true, nil) }

    private func check(_ state: inout State, _ expected: BlobDigest?) throws(ImageError) -> PublishedBlob {
        if let declaredLength, declaredLength != state.written {
            throw ImageError(
                .lengthMismatch, "the body has \(state.written) of the declared \(declaredLength) bytes")
        }
        let header: ImageHeader
        switch state.reader.finish() {
        case .found(let found):
            // Only the check of PNG counts frames. Decoders show the frames that the file has, up to the declared number.
            header = state.end.frameCount.map(found.limited(toFrames:)) ?? found
        case .rejected(let error): throw ImageError(error)
        case .needMore: throw ImageError(.damagedImage, "the image has no header; serve or store the whole image")
        }
        try check(header)
        guard state.end.isComplete else { throw ImageError(.cutOff(header.type, after: state.written)) }
        guard let digest = BlobDigest(state.hash.finalize()) else { throw Self.ended }
        guard expected == nil || expected == digest else {
            throw ImageError(.digestMismatch, "the SHA-256 of the body is \(digest), not the expected digest")
        }
        return PublishedBlob(digest: digest, size: state.written, header: header)
    }

    private func check(_ header: ImageHeader) throws(ImageError) {
        let limits = blobs.accounts.read { $0.imageLimits }
        do throws(ImageFormatError) { try limits.check(header) } catch { throw ImageError(error) }
    }

    private func reserve(_ total: Int, _ state: inout State) throws(ImageError) {
        let space = blobs.accounts.read { $0.space(of: total) }
        guard space > state.reserved else { return }
        let free = try blobs.freeBytes()
        let (bytes, isNew) = (space - state.reserved, state.reserved == 0)
        try blobs.accounts.reserve(bytes, isNew: isNew, free: free)
        state.reserved = space
    }

    /// Removes the temporary file of a writer that publishes no image, and releases the reserved space.
    private func remove(_ state: State) {
        // A file that cannot be removed is an orphan. The next process removes it in a sweep.
        _ = try? blobs.files.remove(name)
        blobs.accounts.settle(reserved: state.reserved, written: state.written)
    }

    private static func tooLarge(_ bytes: Int, limit: Int) -> ImageError {
        ImageError(
            .tooLarge,
            "the image has at least \(bytes) bytes, more than \(limit) (images.maximumImageBytes); raise the limit or serve a smaller image"
        )
    }

    private static var ended: ImageError {
        ImageError(.storageFailed, "the image was finished or discarded already; begin another")
    }
}
