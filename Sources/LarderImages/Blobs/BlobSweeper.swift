/// Finds files without a reference, and references without a file.
package struct BlobSweeper: Sendable {
    /// The progress of a sweep.
    package struct Position: Sendable, Hashable {
        /// 0 for the temporary files, then 1 to 256 for the shard directories.
        fileprivate var step = 0

        package static let start = Position()
    }

    /// The result of one slice of a sweep.
    package struct Slice: Sendable, Hashable {
        /// Where to continue; nil at the end.
        package let next: Position?
        /// The number of removed files.
        package let removed: Int
        /// The size of the removed files in bytes.
        package let removedBytes: Int
    }

    let blobs: BlobFiles

    /// Removes unreferenced files from the directory at `position`: `tmp/` or one of the 256 shard directories. Run a
    /// whole sweep after each start, once all rows of the index have been adopted, and again after a removal failed.
    ///
    /// In `tmp/`, this method removes all files that this process did not create. In `blobs/`, it ignores files whose
    /// names are not digests, because another program put them there.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    package func sweep(_ position: Position) throws(ImageError) -> Slice {
        var (removed, bytes) = (0, 0)
        do throws(CacheFileError) {
            if position.step == 0 {
                for name in try blobs.files.list("tmp") where !name.hasPrefix(blobs.session + "-") {
                    bytes += try blobs.files.open("tmp/" + name)?.size() ?? 0
                    if try blobs.files.remove("tmp/" + name) { removed += 1 }
                }
            } else {
                let shard = UInt8(position.step - 1)
                let names = try blobs.files.list(BlobFiles.shard(shard))
                for name in names {
                    guard let digest = BlobDigest(hex: name), digest.shard == shard else { continue }
                    if let size = try blobs.removeOrphan(digest) { (removed, bytes) = (removed + 1, bytes + size) }
                }
                if names.isEmpty { blobs.removeDirectoryIfEmpty(shard) }
            }
        } catch {
            throw error.asImageError
        }
        let next = position.step < 256 ? Position(step: position.step + 1) : nil
        return Slice(next: next, removed: removed, removedBytes: bytes)
    }

    /// Returns the blobs whose files another program removed, and corrects the disk space of the other blobs. Marks
    /// missing blobs as unverified, so that they are not served before they have been opened again. The caller deletes
    /// the rows of missing blobs, unless a blob has been published again in the meantime.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    func missing(among digests: [BlobDigest]) throws(ImageError) -> Set<BlobDigest> {
        var missing: Set<BlobDigest> = []
        do throws(CacheFileError) {
            for digest in digests {
                if let file = try blobs.openFile(digest) {
                    // The disk space of blobs from an earlier process is an estimate at first.
                    let bytes = try file.allocatedBytes()
                    blobs.withTable { $0.correctSpace(of: digest, bytes: bytes) }
                } else if try blobs.markMissing(digest) {
                    missing.insert(digest)
                }
            }
        } catch {
            throw error.asImageError
        }
        return missing
    }
}
