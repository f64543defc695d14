import Glibc
internal import Synchronization

extension BlobStore {
    /// Creates a writer for a new image. Space is reserved as bytes arrive, not for the declared length.
    ///
    /// - Parameter declaredLength: the length of the body in bytes; nil if the origin does not declare it or a content
    ///   coding changes it
    /// - Throws: ``ImageError/Code/tooLarge``; ``ImageError/Code/noRoom``, without a shortage, if the declared length
    ///   does not fit beside the leased and pinned images; ``ImageError/Code/storageFailed``
    package func begin(declaredLength: Int? = nil) throws(ImageError) -> BlobWriter {
        let length = max(0, declaredLength ?? 0)
        guard length <= limits.bytesPerImage else { throw tooLarge(length) }
        let expected = space(of: length)
        let free = try freeBytes()
        let hasRoom = state.withLock { state in
            // Leased blobs without a row do not count: most of them have just been published and can be evicted once
            // they have a row.
            let held = state.held.bytes - state.leftoverBytes + state.directories.heldBytes
            return state.ledger.canEverHold(expected, held: held, free: free)
        }
        guard hasRoom else { throw noRoom(for: expected) }
        let number = state.withLock { state in
            state.writers += 1
            return state.writers
        }
        return BlobWriter(self, name: "tmp/\(session)-\(number)", declaredLength: declaredLength)
    }

    /// Reserves disk space for bytes that arrived.
    func reserve(_ bytes: Int, isNew: Bool) throws(ImageError) {
        let free = try freeBytes()
        let shortage = state.withLock { $0.ledger.reserve(bytes, isNew: isNew, free: free) }
        if let shortage { throw noRoom(for: bytes, shortage) }
    }

    private func freeBytes() throws(ImageError) -> Int {
        do throws(CacheFileError) { return try files.freeBytes() } catch { throw error.asImageError }
    }

    private func noRoom(for bytes: Int, _ shortage: SpaceShortage? = nil) -> ImageError {
        ImageError(
            .noRoom,
            "the cache has no room for another \(bytes) bytes of disk space: \(held.bytes) are leased or pinned, and \(usage.reservedBytes) are reserved for downloads; raise its limits, free disk space, release or unpin images, or retry later",
            shortage: shortage)
    }

    func wrote(_ bytes: Int) { state.withLock { $0.ledger.wrote(bytes) } }

    func tooLarge(_ bytes: Int) -> ImageError {
        ImageError(
            .tooLarge,
            "the image has \(bytes) bytes or more, over the limit of \(limits.bytesPerImage); raise it or serve a smaller one"
        )
    }

    /// Ends a writer without publishing an image, and removes its file.
    func abandon(_ name: String, reserved: Int, written: Int) {
        // A file that cannot be removed is an orphan. The next process removes it in a sweep.
        _ = try? files.remove(name)
        state.withLock { $0.ledger.settle(reserved: reserved, written: written) }
    }

    /// Publishes a temporary file under its digest, adds a reference and settles the writer. If it throws, no reference
    /// was added and the writer is not settled.
    func publish(_ name: String, _ file: any CacheFile, _ blob: PublishedBlob, reserved: Int) throws(ImageError) {
        do throws(CacheFileError) {
            try file.seal()
            // Measured after fsync(2), because a file system may allocate blocks only then.
            let bytes = try file.allocatedBytes()
            try names.withLock { _ throws(CacheFileError) in
                if try !link(name, blob.digest) { try takeOver(name, blob.digest) }
                remeasureDirectory(blob.digest.shard)
                state.withLock { $0.publish(blob, bytes: bytes, reserved: reserved) }
            }
        } catch {
            throw error.asImageError
        }
    }

    /// Publishes a temporary file under the name of a blob; false if that name exists. Creates the shard directory if
    /// it does not exist or was removed with its last blob. The caller must have locked ``names``.
    private func link(_ name: String, _ digest: BlobDigest) throws(CacheFileError) -> Bool {
        do throws(CacheFileError) {
            return try files.publish(name, as: Self.name(digest))
        } catch {
            guard error.errno == ENOENT else { throw error }
            if try files.createDirectory(Self.shard(digest)) { try files.synchronizeDirectory("blobs") }
            return try files.publish(name, as: Self.name(digest))
        }
    }

    /// Makes the name of a newly published blob durable. On failure releases the reference, and removes the file if
    /// that was the last one.
    func makeDurable(_ digest: BlobDigest) throws(ImageError) {
        do throws(CacheFileError) {
            try files.synchronizeDirectory(Self.shard(digest))
        } catch {
            // The name may not survive a crash, so no row may refer to it.
            if release(digest) { try removeUnreferenced(digest) }
            throw error.asImageError
        }
    }

    /// Uses the existing file of a blob, which another URL has stored or which is an orphan, and removes the temporary
    /// file. If the existing file is not verified yet, it is verified now, and replaced if it is damaged or missing.
    private func takeOver(_ name: String, _ digest: BlobDigest) throws(CacheFileError) {
        let isVerified = state.withLock { $0.entries[digest]?.isVerified ?? false }
        if !isVerified {
            let file = try files.open(Self.name(digest))
            guard let file, try Self.hash(file) == digest else {
                return try files.replace(name, as: Self.name(digest))
            }
        }
        _ = try files.remove(name)
    }
}

extension BlobStore.State {
    /// Adds a reference to a newly written blob, and settles its writer.
    ///
    /// - Parameter bytes: the disk space of the blob
    fileprivate mutating func publish(_ blob: PublishedBlob, bytes: Int, reserved: Int) {
        let known = entries[blob.digest]
        ledger.settle(reserved: reserved, written: blob.size)
        if let known { ledger.remove(known.bytes) }
        change(blob.digest) { entry in
            entry = BlobStore.Entry(
                bytes: bytes, references: (known?.references ?? 0) + 1, rows: known?.rows ?? 0, isVerified: true)
            entry?.pins = known?.pins ?? 0
        }
        ledger.add(entries[blob.digest]?.bytes ?? 0)
    }
}
