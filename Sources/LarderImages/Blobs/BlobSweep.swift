internal import Synchronization

extension BlobStore {
    /// The progress of a sweep.
    package struct SweepPosition: Sendable, Hashable {
        /// 0 for the temporary files, then 1 to 256 for the shard directories.
        fileprivate var step = 0

        package static let start = SweepPosition()
    }

    /// The result of one slice of a sweep.
    package struct SweepSlice: Sendable, Hashable {
        /// Where to continue; nil at the end.
        package let next: SweepPosition?
        /// The number of removed files.
        package let removed: Int
        /// The size of the removed files in bytes.
        package let removedBytes: Int
    }

    /// Removes unreferenced files from one of the 257 parts of the cache. Run a whole sweep after each start, once all
    /// rows of the index have been adopted, and again after a removal failed.
    ///
    /// In `tmp/` it removes all files that an earlier process created. In `blobs/` it ignores files whose names are not
    /// digests, because another program put them there.
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

    /// Returns the blobs whose files another program removed, and corrects the disk space of the others. Marks missing
    /// blobs as unverified, so that they are not served before they have been opened again. The caller deletes the rows
    /// of missing blobs, unless a blob has been published again in the meantime.
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
                // Check again with the lock: this process may just have removed or published the file.
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

    /// Removes the file of a blob, and its shard directory if that is then empty. The caller must have locked
    /// ``names``, so that no blob is published in the directory at the same time.
    ///
    /// - Returns: whether the file existed
    func removeFile(_ digest: BlobDigest) throws(CacheFileError) -> Bool {
        let existed = try files.remove(Self.name(digest))
        removeEmptyDirectory(digest.shard)
        return existed
    }

    private func removeOrphan(_ digest: BlobDigest) throws(CacheFileError) -> Int? {
        // Check without locking `names` first, because nearly all files are referenced.
        guard state.withLock({ ($0.entries[digest]?.references ?? 0) == 0 }) else { return nil }
        return try names.withLock { _ throws(CacheFileError) in
            // If an unreferenced blob has an entry, an earlier removal of its file failed.
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
