internal import Crypto
package import LarderImageFormats
internal import Synchronization

/// A published image.
package struct PublishedBlob: Sendable, Hashable {
    package let digest: BlobDigest
    /// The size in bytes.
    package let size: Int
    /// The type and the size in pixels.
    package let header: ImageHeader
}

/// Writes an image to a temporary file while it hashes the bytes, checks the limits and reads the header. One caller
/// uses it at a time. If it is released without ``finish(expectedDigest:)``, the file is removed.
package final class BlobWriter: Sendable {
    private struct State {
        /// Created after disk space for the first bytes was reserved.
        var file: (any CacheFile)?
        /// Whether the image was published or discarded.
        var isEnded = false
        var hash = SHA256()
        var reader = ImageHeaderReader()
        var end = TruncationDetector()
        var written = 0
        /// Reserved bytes. A writer with reserved bytes also counts towards the limit on images.
        var reserved = 0
    }

    private let store: BlobStore
    private let name: String
    private let declaredLength: Int?
    private let state: Mutex<State>

    init(_ store: BlobStore, name: String, declaredLength: Int?) {
        self.store = store
        self.name = name
        self.declaredLength = declaredLength
        state = Mutex(State())
    }

    deinit { discard() }

    /// The number of bytes written.
    package var written: Int { state.withLock { $0.written } }

    /// Writes the next bytes: all of them or none.
    ///
    /// - Throws: ``ImageError/Code/noRoom``: call again with the same bytes after images have been evicted. All other
    ///   errors are final: ``ImageError/Code/tooLarge``, ``ImageError/Code/lengthDisagrees``, the errors of
    ///   ``ImageHeaderReader`` and ``ImageLimits``, ``ImageError/Code/storageFailed``
    package func append(_ bytes: [UInt8]) throws(ImageError) {
        try state.withLock { state throws(ImageError) in
            guard !state.isEnded else { throw Self.ended }
            if bytes.isEmpty { return }
            let total = state.written + bytes.count
            if let declaredLength, total > declaredLength {
                throw ImageError(
                    .lengthDisagrees, "the body is longer than the \(declaredLength) bytes that were declared")
            }
            guard total <= store.limits.bytesPerImage else { throw store.tooLarge(total) }
            // Check the header before any byte is written, so that other data never takes disk space.
            switch state.reader.progress {
            case .needMore:
                var reader = state.reader
                switch reader.feed(bytes) {
                case .needMore: break
                // The frame count in a PNG header may be wrong. It is checked when the frames have been counted.
                case .found(let header): try check(header.type == .png ? header.still : header)
                case .refused(let error): throw ImageError(error)
                }
                try reserve(total, &state)
                state.reader = reader
            default: try reserve(total, &state)
            }
            do throws(CacheFileError) {
                if state.file == nil { state.file = try store.files.create(name) }
                try state.file?.append(bytes)
            } catch {
                // Part of the bytes may have been written, so the caller cannot retry.
                end(&state)
                remove(state)
                throw error.asImageError
            }
            store.wrote(bytes.count)
            state.hash.update(data: bytes)
            state.end.feed(bytes)
            state.written = total
        }
    }

    /// Publishes the image if its length, digest, header and end are valid. The caller then has a reference to it, as
    /// from ``BlobStore/retain(_:)``.
    ///
    /// - Parameter expectedDigest: the digest that the caller expects, if any
    /// - Throws: ``ImageError``. The image is not published then, and the temporary file is removed
    package func finish(expectedDigest: BlobDigest? = nil) throws(ImageError) -> PublishedBlob {
        try state.withLock { state throws(ImageError) in
            guard !state.isEnded else { throw Self.ended }
            defer { end(&state) }
            let blob: PublishedBlob
            do throws(ImageError) {
                blob = try check(&state, expectedDigest)
                guard let file = state.file else { throw Self.ended }
                try store.publish(name, file, blob, reserved: state.reserved)
            } catch {
                remove(state)
                throw error
            }
            try store.makeDurable(blob.digest)
            return blob
        }
    }

    /// Discards the image and removes its file. Does nothing after ``finish(expectedDigest:)``.
    package func discard() {
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
                .lengthDisagrees, "the body has \(state.written) of the \(declaredLength) bytes that were declared")
        }
        let header: ImageHeader
        switch state.reader.finish() {
        case .found(let found):
            // Decoders show an animation with a wrong frame count as a still image.
            header = found.type == .png && found.frameCount != state.end.frameCount ? found.still : found
        case .refused(let error): throw ImageError(error)
        case .needMore: throw ImageError(.damagedImage, "the image has no header; serve or store a whole one")
        }
        try check(header)
        guard state.end.isComplete else { throw ImageError(.cutOff(header.type, after: state.written)) }
        guard let digest = BlobDigest(Array(state.hash.finalize())) else { throw Self.ended }
        guard expected == nil || expected == digest else {
            throw ImageError(.digestDisagrees, "the body's SHA-256 is \(digest), not what was expected")
        }
        return PublishedBlob(digest: digest, size: state.written, header: header)
    }

    private func check(_ header: ImageHeader) throws(ImageError) {
        do throws(ImageFormatError) { try store.imageLimits.check(header) } catch { throw ImageError(error) }
    }

    private func reserve(_ total: Int, _ state: inout State) throws(ImageError) {
        let space = store.space(of: total)
        guard space > state.reserved else { return }
        try store.reserve(space - state.reserved, isNew: state.reserved == 0)
        state.reserved = space
    }

    private func remove(_ state: State) {
        store.abandon(name, reserved: state.reserved, written: state.written)
    }

    private static var ended: ImageError {
        ImageError(.storageFailed, "the image was finished or given up already; begin another")
    }
}
