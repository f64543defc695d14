import Glibc

/// An image cache in an older layout. It is set aside when the index is opened, which takes a few renames, and removed
/// in the background.
struct OutdatedImages {
    private let files: any CacheFiles
    private let path: String
    private let session: String

    private static let directory = "outdated"
    private static let index = directory + "/" + IndexFormat.index

    init(_ store: BlobStore) { (files, path, session) = (store.files, store.path, store.session) }

    /// The numbers of images and pins in a cache; nil if its index is damaged.
    typealias Contents = (images: Int, pins: Int)?

    /// Sets aside a cache in an older layout, and creates an empty directory for blobs. The index is moved last, so
    /// that after a crash before that move the next start sets aside the rest.
    ///
    /// - Parameter version: the version of the index; 0 if it is empty or damaged
    /// - Returns: whether the cache was in an older layout; if not, nothing was changed
    /// - Throws: ``ImageError/Code/storageFailed``
    func setAside(version: Int) throws(ImageError) -> Bool {
        do throws(CacheFileError) {
            // Caches of version 2 and older have the directory "rows", which identifies them even if their index is
            // damaged.
            let names = try files.list(".")
            let hasRows = names.contains("rows")
            // Older versions had no copy of the index. If there is a copy, an older version number is the result of
            // damage.
            let isOlder = (1..<IndexMigration.version).contains(version) && !names.contains(IndexFormat.copy)
            guard hasRows || isOlder else { return false }
            _ = try files.createDirectory(Self.directory)
            try files.replace("blobs", as: "\(Self.directory)/\(session)-blobs")
            if try files.createDirectory("blobs") { try files.synchronizeDirectory(".") }
            if hasRows { try files.replace("rows", as: "\(Self.directory)/\(session)-rows") }
            for suffix in ["-wal", "-journal"] { _ = try files.remove(IndexFormat.index + suffix) }
            try files.replace(IndexFormat.index, as: Self.index)
            try files.synchronizeDirectory(".")
        } catch {
            throw error.asImageError
        }
        return true
    }

    /// Returns the version and contents of the cache that was set aside, and removes its index. Returns nil if there is
    /// no such index, and therefore in later calls.
    func takeContents() throws(ImageError) -> (version: Int, contents: Contents)? {
        let exists = try ImageError.from { () throws(CacheFileError) in try files.open(Self.index) != nil }
        guard exists else { return nil }
        var (version, contents) = (0, Contents.none)
        if let database = try? SQLiteDatabase(path: path + "/" + Self.index) {
            var counts = (images: 0, pins: 0)
            do throws(SQLiteError) {
                try database.prepare("PRAGMA user_version").run { version = $0.integer(0) }
                try database.prepare("SELECT count(*), total(pinned) FROM entry").run { row in
                    counts = (row.integer(0), row.integer(1))
                }
                contents = counts
            } catch {}
        }
        try ImageError.from { () throws(CacheFileError) in
            for suffix in ["-wal", "-shm", "-journal", ""] { _ = try files.remove(Self.index + suffix) }
        }
        return (version, contents)
    }

    /// Removes up to `limit` files and directories of the cache that was set aside.
    ///
    /// - Returns: whether everything has been removed
    func remove(limit: Int) throws(ImageError) -> Bool {
        var rest = limit
        return try ImageError.from { () throws(CacheFileError) in try remove(Self.directory, &rest) }
    }

    private func remove(_ directory: String, _ rest: inout Int) throws(CacheFileError) -> Bool {
        for entry in try files.list(directory) {
            guard rest > 0 else { return false }
            let name = directory + "/" + entry
            do throws(CacheFileError) {
                _ = try files.remove(name)
                rest -= 1
            } catch {
                guard error.errno == EISDIR else { throw error }
                guard try remove(name, &rest) else { return false }
            }
        }
        rest -= 1
        _ = try files.removeDirectory(directory)
        return true
    }
}
