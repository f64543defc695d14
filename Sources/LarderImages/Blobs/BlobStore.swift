import Glibc
package import LarderImageFormats
internal import LarderPlatform

/// Stores images on disk. Each file is named by the SHA-256 of its bytes, never changes, and stays as long as it is
/// referenced.
///
/// The cache directory contains `lock`, `clean` (present only after an orderly stop, while no agent runs), `tmp/`, and
/// up to 256 shard directories with files such as `blobs/ab/abcd…`. The store survives `kill -9` at any point:
///
/// - Bytes are written to a file in `tmp/`, which no reader opens. link(2) adds the name in `blobs/` in one step, after
///   length, digest and header have been checked and the bytes are durable. A name in `blobs/` therefore never refers
///   to a partial file.
/// - The caller writes an index row after ``BlobFiles/publish(_:)`` and deletes it before
///   ``removeUnreferenced(_:)``. A row therefore always has its file. A kill can leave a file without a row: an orphan.
/// - ``sweeper`` finds orphans, slice by slice. It removes only files that are unreferenced at that moment. A new image
///   with the same bytes as an orphan uses the file of the orphan.
/// - Disks can corrupt data, and a power failure may damage files that were reported as durable. Each process therefore
///   hashes a file from an earlier process before it first serves the file, and removes the file if the hash differs
///   from the file name. After a stop that was not orderly, all files are also verified in the background.
///
/// ``accounts`` has the references of the files in memory. The methods of the store block the calling thread. The store is
/// not `Sendable`, because one owner, ``ImageDiskCache``, adds and removes names.
package final class BlobStore {
    /// The path of the cache directory, as passed to the initializer.
    package let path: String
    /// Whether the last stop was not orderly. All files are then verified in the background.
    package let isUnclean: Bool
    /// Removes files that no blob refers to.
    package let sweeper: BlobSweeper
    let blobs: BlobFiles
    let writers: BlobWriters
    private let lock: FileLock

    /// Opens the cache directory, and creates it if it does not exist.
    ///
    /// - Throws: ``ImageError/Code/cacheInUse`` with the PID of the process that has locked it;
    ///   ``ImageError/Code/storageFailed``
    package convenience init(
        path: String, limits: SpaceLimits = SpaceLimits(), imageLimits: ImageLimits = ImageLimits()
    ) throws(ImageError) {
        let files: LocalDirectoryFiles
        do throws(FileError) { files = try LocalDirectoryFiles(path: path) } catch { throw error.asImageError }
        try self.init(path: path, files: files, limits: limits, imageLimits: imageLimits)
    }

    init(
        path: String, files: any DirectoryFiles, limits: SpaceLimits = SpaceLimits(),
        imageLimits: ImageLimits = ImageLimits()
    ) throws(ImageError) {
        self.path = path
        let register = BlobRegister(limits, imageLimits, blockBytes: files.blockBytes)
        blobs = BlobFiles(files, register)
        writers = BlobWriters(files: files, accounts: register.accounts)
        sweeper = BlobSweeper(blobs: blobs, session: writers.session)
        lock = try FileLock(cacheDirectory: path)
        do throws(FileError) {
            let isNew = try files.createDirectory("blobs")
            _ = try files.createDirectory("tmp")
            // The removal of `clean` must be durable before anything else changes. Otherwise a later crash could look
            // like an orderly stop.
            isUnclean = try !files.remove("clean") && !isNew
            try files.synchronizeDirectory(".")
            try blobs.measureDirectories()
        } catch {
            throw error.asImageError
        }
    }

    /// The files of the cache directory, in which the index also has its files.
    var files: any DirectoryFiles { blobs.files }

    /// The references and the space of the blobs.
    var accounts: BlobAccounts { blobs.register.accounts }
    /// Changes the blobs and the state of the index in memory.
    var register: BlobRegister { blobs.register }

    /// Removes the file of a blob, unless the blob has been referenced again.
    ///
    /// - Returns: the disk space that the file took; nil if it was not removed
    /// - Throws: ``ImageError/Code/storageFailed``. The file is then an orphan. The next sweep removes it; until then
    ///   it counts as used space
    @discardableResult
    package func removeUnreferenced(_ digest: BlobDigest) throws(ImageError) -> Int? {
        do throws(FileError) { return try blobs.removeUnreferenced(digest) } catch { throw error.asImageError }
    }

    /// Completes ``BlobFiles/open(_:in:isVerified:)`` for a blob that was not verified, or whose file could not be used.
    ///
    /// - Throws: ``ImageError/Code/damagedBlob`` if the file is missing, or if its hash differs from its name. A
    ///   damaged file is removed, and the caller must delete the rows of the blob. ``ImageError/Code/storageFailed``
    func complete(_ opening: BlobFiles.Opening, of digest: BlobDigest) throws(ImageError) -> BlobFile {
        var opening = opening
        if case .damaged = opening {
            opening = try ImageError.from { () throws(FileError) in try blobs.removeDamaged(digest) }
        } else if case .missing = opening, accounts.isVerified(digest) {
            // The blob may have been published again since its file was found missing.
            opening = try ImageError.from { () throws(FileError) in
                try BlobFiles.open(digest, in: files, isVerified: true)
            }
        }
        switch opening {
        case .whole(let file):
            setVerified(digest, true)
            return file
        case .missing:
            setVerified(digest, false)
            throw ImageError(.damagedBlob, "the file of \(digest) is missing; the image is downloaded again")
        case .damaged:
            setVerified(digest, false)
            throw ImageError(
                .damagedBlob,
                "the file of \(digest) was damaged on disk and has been removed; the image is downloaded again")
        }
    }

    /// Sets whether the blob is verified. A missing or damaged blob is marked unverified so that it is not served
    /// before it has been opened again.
    private func setVerified(_ digest: BlobDigest, _ isVerified: Bool) {
        register.change { $0.setVerified(digest, isVerified) }
    }

    /// Records an orderly stop by creating `clean`. If `clean` was missing at the start, this method creates it only if
    /// all files have been verified since. Call it last; the lock on the directory is released when the store is
    /// deallocated.
    package func markClean() throws(ImageError) {
        guard !isUnclean || accounts.read({ $0.entries.values.allSatisfy(\.isVerified) }) else { return }
        try ImageError.from { () throws(FileError) in
            _ = try files.create("clean")
            try files.synchronizeDirectory(".")
        }
    }
}

/// Finds files without a reference, and references without a file.
package struct BlobSweeper {
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
    /// As in ``BlobWriters/session``.
    let session: String

    /// Removes unreferenced files from one directory: `tmp/` in step 0, and the shard directories in steps 1 to 256. Run a
    /// whole sweep after each start, once all rows of the index have been adopted, and again after a removal failed.
    ///
    /// In `tmp/`, this method removes all files that this process did not create. In `blobs/`, it ignores files whose
    /// names are not digests. It ignores directories in both. Another program put these there.
    ///
    /// - Throws: ``ImageError/Code/storageFailed`` if the directory cannot be read
    package func sweep(step: Int) throws(ImageError) -> Slice {
        let shard = step == 0 ? nil : UInt8(step - 1)
        let names = try ImageError.from { () throws(FileError) in
            try blobs.files.list(shard.map(BlobFiles.shard) ?? "tmp")
        }
        var (removed, bytes) = (0, 0)
        var failure: ImageError?
        for name in names {
            do throws(FileError) {
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
    private func removeTemporary(_ name: String) throws(FileError) -> Int? {
        guard !name.hasPrefix(session + "-") else { return nil }
        // The size is only for the log. A file that cannot be opened is removed, too.
        let size = try? blobs.files.open("tmp/" + name)?.size()
        return try blobs.files.remove("tmp/" + name) ? size ?? 0 : nil
    }

    private func removeOrphan(_ name: String, in shard: UInt8) throws(FileError) -> Int? {
        guard let digest = BlobDigest(hex: name), digest.shard == shard else { return nil }
        return try blobs.removeOrphan(digest)
    }

    /// The state of the files of some blobs.
    struct Check: Sendable {
        /// The disk space of the files, in bytes.
        var space: [(blob: BlobDigest, bytes: Int)] = []
        /// The blobs whose files seem to be missing.
        var suspects: [BlobDigest] = []
        /// The first error, if a file could not be checked.
        var failure: ImageError?
    }

    /// Checks the files of blobs. Changes nothing, so any thread may call it.
    static func check(_ digests: [BlobDigest], in files: any DirectoryFiles) -> Check {
        var check = Check()
        for digest in digests {
            do throws(FileError) {
                guard let file = try files.open(BlobFiles.name(digest)) else {
                    check.suspects.append(digest)
                    continue
                }
                check.space.append((digest, try file.allocatedBytes()))
            } catch {
                check.failure = check.failure ?? error.asImageError
            }
        }
        return check
    }

    /// Corrects the disk space of blobs. Returns those whose files another program removed, and marks them as unverified,
    /// so that they are not served before they have been opened again. The caller deletes the rows of missing blobs, unless a blob has been
    /// published again in the meantime.
    ///
    /// - Parameter check: the result of ``check(_:in:)``, which may have been called while a file was being removed or
    ///   published
    /// - Returns: the blobs, and the first error if a file could not be checked
    func missing(after check: Check) -> (missing: Set<BlobDigest>, failure: ImageError?) {
        // The disk space of blobs from an earlier process is an estimate at first.
        for file in check.space { blobs.register.change { $0.correctSpace(of: file.blob, bytes: file.bytes) } }
        var missing: Set<BlobDigest> = []
        var failure = check.failure
        for digest in check.suspects {
            do throws(FileError) {
                if try blobs.markMissing(digest) { missing.insert(digest) }
            } catch {
                failure = failure ?? error.asImageError
            }
        }
        return (missing, failure)
    }
}
