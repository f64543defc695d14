internal import Synchronization

extension BlobStore {
    /// How far a sweep has come.
    package struct SweepPosition: Sendable, Hashable {
        /// 0: the temporary files; then 1 to 256 for the shard directories.
        fileprivate var step = 0

        /// The beginning.
        package static let start = SweepPosition()
    }

    /// What one slice of a sweep did.
    package struct SweepSlice: Sendable, Hashable {
        /// Where to go on, or nothing at the end.
        package let next: SweepPosition?
        /// Files that were removed.
        package let removed: Int
        /// Their bytes.
        package let removedBytes: Int
    }

    /// Looks for files that nobody refers to and removes them: a 257th of the cache at a time. To be run once after each
    /// start, when all rows of the index have been adopted, and again after a removal failed.
    ///
    /// A file whose name is not ours is left where it is: somebody else put it there.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    package func sweep(_ position: SweepPosition) throws(ImageError) -> SweepSlice {
        var (removed, bytes) = (0, 0)
        do throws(CacheFileError) {
            if position.step == 0 {
                for name in try files.list("tmp") where !name.hasPrefix(session + "-") {
                    bytes += try files.open("tmp/" + name)?.size() ?? 0
                    if try files.remove("tmp/" + name) { removed += 1 }
                }
            } else {
                let shard = UInt8(position.step - 1)
                let names = try files.list(Self.shard(shard))
                for name in names {
                    guard let digest = BlobDigest(hex: name), digest.shard == shard else { continue }
                    if let size = try removeOrphan(digest) { (removed, bytes) = (removed + 1, bytes + size) }
                }
                if names.isEmpty { self.names.withLock { _ in removeEmptyDirectory(shard) } }
            }
        } catch {
            throw error.asImageError
        }
        let next = position.step < 256 ? SweepPosition(step: position.step + 1) : nil
        return SweepSlice(next: next, removed: removed, removedBytes: bytes)
    }

    /// Returns the blobs whose files another program removed, and corrects the disk space of the others. A missing blob
    /// answers no request until it has been opened. The caller deletes its rows, unless it was published again in the
    /// meantime.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    func missing(among digests: [BlobDigest]) throws(ImageError) -> Set<BlobDigest> {
        var missing: Set<BlobDigest> = []
        do throws(CacheFileError) {
            for digest in digests {
                if let file = try files.open(Self.name(digest)) {
                    try correctSpace(of: digest, file)
                    continue
                }
                // Again while nobody gives or takes names: it may just have been removed by us, or published.
                try names.withLock { _ throws(CacheFileError) in
                    guard try files.open(Self.name(digest)) == nil else { return }
                    state.withLock { $0.change(digest) { $0?.isVerified = false } }
                    missing.insert(digest)
                }
            }
        } catch {
            throw error.asImageError
        }
        return missing
    }

    /// Removes the file of a blob, and its shard directory if that is empty then. Call it with ``names`` locked, so that
    /// no blob is published into the directory at the same time.
    /// - Returns: whether there was a file
    func removeFile(_ digest: BlobDigest) throws(CacheFileError) -> Bool {
        let existed = try files.remove(Self.name(digest))
        removeEmptyDirectory(digest.shard)
        return existed
    }

    private func removeOrphan(_ digest: BlobDigest) throws(CacheFileError) -> Int? {
        // Asked without the lock on names first: nearly all files are referred to.
        guard state.withLock({ ($0.entries[digest]?.references ?? 0) == 0 }) else { return nil }
        return try names.withLock { _ throws(CacheFileError) in
            // Known, but referred to by nobody: its removal failed once.
            let (isWanted, known) = state.withLock { state in
                state.change(digest) { entry in
                    guard (entry?.references ?? 0) == 0 else { return (true, Entry?.none) }
                    let known = entry
                    entry = nil
                    return (false, known)
                }
            }
            guard !isWanted else { return nil }
            do throws(CacheFileError) {
                let size = try files.open(Self.name(digest))?.size() ?? 0
                let isRemoved = try removeFile(digest)
                if let known { state.withLock { $0.ledger.remove(known.bytes) } }
                return isRemoved ? size : nil
            } catch {
                if let known { state.withLock { $0.change(digest) { $0 = known } } }
                throw error
            }
        }
    }
}
