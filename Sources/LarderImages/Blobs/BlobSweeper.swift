import Glibc

/// Finds files without a reference, and references without a file.
package struct BlobSweeper: Sendable {
    /// The result of one slice of a sweep.
    package struct Slice: Sendable, Hashable {
        /// The step at which to continue; nil at the end.
        package let next: Int?
        /// The number of removed files.
        package let removed: Int
        /// The size of the removed files in bytes.
        package let removedBytes: Int
        /// The first error, if a file could not be removed. The other files of the directory were removed.
        package let failure: ImageError?
    }

    let blobs: BlobFiles

    /// Removes unreferenced files from one directory: `tmp/` in step 0, and the shard directories in steps 1 to 256. Run a
    /// whole sweep after each start, once all rows of the index have been adopted, and again after a removal failed.
    ///
    /// In `tmp/`, this method removes all files that this process did not create. In `blobs/`, it ignores files whose
    /// names are not digests. It ignores directories in both. Another program put these there.
    ///
    /// - Throws: ``ImageError/Code/storageFailed`` if the directory cannot be read
    package func sweep(step: Int) throws(ImageError) -> Slice {
        let shard = step == 0 ? nil : UInt8(step - 1)
        let names = try ImageError.from { () throws(CacheFileError) in
            try blobs.files.list(shard.map(BlobFiles.shard) ?? "tmp")
        }
        var (removed, bytes) = (0, 0)
        var failure: ImageError?
        for name in names {
            do throws(CacheFileError) {
                let size = if let shard { try removeOrphan(name, in: shard) } else { try removeTemporary(name) }
                if let size { (removed, bytes) = (removed + 1, bytes + size) }
            } catch {
                if error.errno != EISDIR { failure = failure ?? error.asImageError }
            }
        }
        if let shard, names.isEmpty { blobs.removeDirectoryIfEmpty(shard) }
        return Slice(next: step < 256 ? step + 1 : nil, removed: removed, removedBytes: bytes, failure: failure)
    }

    /// Removes a file of an earlier process from `tmp/`. Returns its size; nil if it was not removed.
    private func removeTemporary(_ name: String) throws(CacheFileError) -> Int? {
        guard !name.hasPrefix(blobs.session + "-") else { return nil }
        // The size is only for the log. A file that cannot be opened is removed, too.
        let size = try? blobs.files.open("tmp/" + name)?.size()
        return try blobs.files.remove("tmp/" + name) ? size ?? 0 : nil
    }

    private func removeOrphan(_ name: String, in shard: UInt8) throws(CacheFileError) -> Int? {
        guard let digest = BlobDigest(hex: name), digest.shard == shard else { return nil }
        return try blobs.removeOrphan(digest)
    }

    /// Returns the blobs whose files another program removed, and corrects the disk space of the other blobs. Marks
    /// missing blobs as unverified, so that they are not served before they have been opened again. The caller deletes
    /// the rows of missing blobs, unless a blob has been published again in the meantime.
    ///
    /// - Returns: the blobs, and the first error if a file could not be checked
    func missing(among digests: [BlobDigest]) -> (missing: Set<BlobDigest>, failure: ImageError?) {
        var missing: Set<BlobDigest> = []
        var failure: ImageError?
        for digest in digests {
            do throws(CacheFileError) {
                if let file = try blobs.openFile(digest) {
                    // The disk space of blobs from an earlier process is an estimate at first.
                    let bytes = try file.allocatedBytes()
                    blobs.withTable { $0.correctSpace(of: digest, bytes: bytes) }
                } else if try blobs.markMissing(digest) {
                    missing.insert(digest)
                }
            } catch {
                failure = failure ?? error.asImageError
            }
        }
        return (missing, failure)
    }
}
