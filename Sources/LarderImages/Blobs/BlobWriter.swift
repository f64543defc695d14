internal import Crypto
package import LarderImageFormats
internal import Synchronization

/// What was published.
package struct PublishedBlob: Sendable, Hashable {
    /// Its name.
    package let digest: BlobDigest
    /// Its size in bytes.
    package let size: Int
    /// Its type and size in pixels.
    package let header: ImageHeader
}

/// An image on its way to disk: written to a temporary file while it is hashed, counted and looked at. One caller uses it
/// at a time. What is not finished is removed with the last reference at the latest.
package final class BlobWriter: Sendable {
    private struct State {
        /// Created when the first bytes have room.
        var file: (any CacheFile)?
        /// Whether it was published or discarded.
        var isEnded = false
        var hash = SHA256()
        var reader = ImageHeaderReader()
        var end = TruncationDetector()
        var written = 0
        /// Reserved bytes. A writer that has reserved any also counts towards the limit on images.
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

    /// How many bytes were taken.
    package var written: Int { state.withLock { $0.written } }

    /// Takes the next bytes. All of them are written, or none.
    ///
    /// - Throws: ``ImageError/Code/noRoom``: call it again with the same bytes when something was removed. Everything
    ///   else is final: ``ImageError/Code/tooLarge``, ``ImageError/Code/lengthDisagrees``, what ``ImageHeaderReader`` and
    ///   ``ImageLimits`` refuse, ``ImageError/Code/storageFailed``
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
            // Before anything is written: what is no image is worth no disk.
            switch state.reader.progress {
            case .needMore:
                var reader = state.reader
                switch reader.feed(bytes) {
                case .needMore: break
                // The frame count of a PNG may be wrong. It is checked when the frames have been counted.
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
                // A part may be written, so that there is no second try.
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

    /// Publishes the image, if its length, digest, header and end are right. The caller then holds a reference to it, as
    /// ``BlobStore/retain(_:)`` gives one.
    ///
    /// - Parameter expectedDigest: what the caller was told that the bytes are
    /// - Throws: ``ImageError``; nothing is published then, and the temporary file is gone
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

    /// Gives the image up and removes what was written. Does nothing after ``finish(expectedDigest:)``.
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
            // Decoders show an animation with a wrong frame count as the still image that it also is.
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
