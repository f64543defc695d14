import Glibc
internal import LarderDigest
internal import LarderPlatform

/// The names of a cache directory's blobs, together with their entries in the tables. Part of a ``BlobStore``, whose owner calls its
/// methods one at a time, so that no name is added while another one is removed.
final class BlobFiles {
    /// The files by name. Names in `blobs/` are added and removed only by the methods of this type.
    let files: any DirectoryFiles
    let register: BlobRegister

    init(_ files: any DirectoryFiles, _ register: BlobRegister) { (self.files, self.register) = (files, register) }

    static func shard(_ shard: UInt8) -> String { "blobs/" + (shard < 16 ? "0" : "") + String(shard, radix: 16) }

    static func name(_ digest: BlobDigest) -> String { shard(digest.shard) + "/" + digest.description }

    private func isVerified(_ digest: BlobDigest) -> Bool { register.accounts.isVerified(digest) }

    // MARK: Space

    /// Measures `blobs` and all shard directories.
    func measureDirectories() throws(FileError) {
        let root = try files.allocatedBytes("blobs")
        register.change { table in
            table.directories.rootBytes = root
            // The space of a new shard directory is estimated by that of `blobs`, which has at most 256 short names.
            table.ledger.newDirectoryBytes = root
        }
        for shard in UInt8.min...UInt8.max { try measureDirectory(shard) }
    }

    /// Measures a shard directory. A directory grows with its entries and shrinks only when it is removed.
    private func measureDirectory(_ shard: UInt8) throws(FileError) {
        let bytes = try files.allocatedBytes(Self.shard(shard))
        register.change { $0.setDirectoryBytes(bytes, of: shard) }
    }

    // MARK: Reading

    /// The result of opening the file of a blob.
    enum Opening: Sendable {
        case whole(BlobFile)
        case missing
        case damaged
    }

    /// Opens the file of a blob, and unless `isVerified`, hashes it. Changes nothing, so any thread may call it.
    static func open(
        _ digest: BlobDigest, in files: any DirectoryFiles, isVerified: Bool
    ) throws(FileError) -> Opening {
        guard let file = try files.open(name(digest)) else { return .missing }
        if !isVerified, try hash(file) != digest { return .damaged }
        return .whole(BlobFile(file, size: try file.size()))
    }

    /// Removes a damaged file, unless it has been replaced since it was hashed. Opens the new file then.
    func removeDamaged(_ digest: BlobDigest) throws(FileError) -> Opening {
        if isVerified(digest) { return try Self.open(digest, in: files, isVerified: true) }
        _ = try remove(digest)
        return .damaged
    }

    /// The SHA-256 of a file's bytes on disk.
    static func hash(_ file: any DirectoryFile) throws(FileError) -> BlobDigest? {
        var hash = SHA256()
        var offset = 0
        while true {
            let piece = try file.read(at: offset, count: 1 << 18)
            if piece.isEmpty { return BlobDigest(hash.finalize()) }
            hash.update(piece)
            offset += piece.count
        }
    }

    // MARK: Adding names

    /// Gives a sealed file the name of its blob, adds a reference to the blob and releases the space that the writer
    /// reserved. If this method throws, it has removed the file and added no reference. The name is durable after
    /// ``DirectoryFiles/synchronizeDirectory(_:)``.
    func publish(_ sealed: SealedBlob) throws(FileError) {
        let digest = sealed.blob.digest
        do throws(FileError) {
            if try !link(sealed.name, digest) { try useExistingFile(insteadOf: sealed.name, digest) }
        } catch {
            // A file that cannot be removed is an orphan. The next process removes it in a sweep.
            _ = try? files.remove(sealed.name)
            register.change { $0.ledger.settle(reserved: sealed.reserved, written: sealed.blob.size) }
            throw error
        }
        // If this fails, the previous measurement of the directory remains in use.
        try? measureDirectory(digest.shard)
        register.change { $0.publish(sealed.blob, bytes: sealed.bytes, reserved: sealed.reserved) }
    }

    /// Releases the reference to a blob whose name could not be made durable, and removes the file if that was the last
    /// reference. A crash could remove the name again, so the blob must not get a row.
    func undoPublication(of digest: BlobDigest) throws(FileError) {
        if register.change({ $0.release(digest, isRow: false) }) { _ = try removeUnreferenced(digest) }
    }

    /// Gives a temporary file the name of a blob; false if that name exists. Creates the shard directory if it does not
    /// exist or was removed with its last blob.
    private func link(_ temporary: String, _ digest: BlobDigest) throws(FileError) -> Bool {
        do throws(FileError) {
            return try files.publish(temporary, as: Self.name(digest))
        } catch {
            guard error.errno == ENOENT else { throw error }
            if try files.createDirectory(Self.shard(digest.shard)) { try files.synchronizeDirectory("blobs") }
            return try files.publish(temporary, as: Self.name(digest))
        }
    }

    /// Removes the temporary file of a blob and keeps the existing file of the blob, which was stored for another URL
    /// or is an orphan. If the existing file has not been verified yet, it is verified first. If it is damaged or
    /// missing, the temporary file replaces it.
    private func useExistingFile(insteadOf temporary: String, _ digest: BlobDigest) throws(FileError) {
        if !isVerified(digest) {
            guard let file = try files.open(Self.name(digest)), try Self.hash(file) == digest else {
                return try files.replace(temporary, as: Self.name(digest))
            }
        }
        _ = try files.remove(temporary)
    }

    // MARK: Removing names

    /// Removes the file of a blob, and its shard directory if that is then empty.
    ///
    /// - Returns: whether the file existed
    private func remove(_ digest: BlobDigest) throws(FileError) -> Bool {
        let existed = try files.remove(Self.name(digest))
        removeDirectoryIfEmpty(digest.shard)
        return existed
    }

    /// Removes the entry and the file of a blob, unless the blob is referenced or has no entry.
    ///
    /// - Returns: the disk space that the file took; nil if it was not removed
    func removeUnreferenced(_ digest: BlobDigest) throws(FileError) -> Int? {
        guard let entry = register.change({ $0.takeUnreferenced(digest) }).entry else { return nil }
        do throws(FileError) {
            _ = try remove(digest)
        } catch {
            register.change { $0.restore(digest, entry) }
            throw error
        }
        register.change { $0.ledger.remove(entry.bytes) }
        return entry.bytes
    }

    /// Removes the file of an unreferenced blob. Also removes the entry that the blob still has if an earlier removal
    /// failed.
    ///
    /// - Returns: the size of the file; nil if the blob is referenced or the file was already gone
    func removeOrphan(_ digest: BlobDigest) throws(FileError) -> Int? {
        let (isReferenced, entry) = register.change { $0.takeUnreferenced(digest) }
        guard !isReferenced else { return nil }
        do throws(FileError) {
            let size = try files.open(Self.name(digest))?.size() ?? 0
            let isRemoved = try remove(digest)
            if let entry { register.change { $0.ledger.remove(entry.bytes) } }
            return isRemoved ? size : nil
        } catch {
            if let entry { register.change { $0.restore(digest, entry) } }
            throw error
        }
    }

    /// Removes a shard directory if it is empty. An empty directory that cannot be removed is harmless; the next sweep
    /// retries.
    func removeDirectoryIfEmpty(_ shard: UInt8) {
        guard (try? files.removeDirectory(Self.shard(shard))) == true else { return }
        register.change { $0.setDirectoryBytes(0, of: shard) }
    }

    /// Returns whether the file of a blob is missing. If so, marks the blob as unverified.
    func markMissing(_ digest: BlobDigest) throws(FileError) -> Bool {
        guard try files.open(Self.name(digest)) == nil else { return false }
        register.change { $0.setVerified(digest, false) }
        return true
    }
}

/// A blob that is open for reading. The bytes stay readable as long as this value exists, even if the file is removed.
package struct BlobFile: Sendable {
    private let file: any DirectoryFile
    /// The size in bytes.
    package let size: Int

    init(_ file: any DirectoryFile, size: Int) { (self.file, self.size) = (file, size) }

    /// The read-only descriptor, to pass to a client while this value exists.
    package var descriptor: CInt? { file.descriptor }

    /// Reads up to `count` bytes at an offset; empty at the end.
    ///
    /// - Throws: ``ImageError/Code/storageFailed``
    package func read(at offset: Int, count: Int) throws(ImageError) -> [UInt8] {
        do throws(FileError) { return try file.read(at: offset, count: count) } catch { throw error.asImageError }
    }
}
