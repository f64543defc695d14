import Glibc
internal import LarderPlatform
internal import LarderUpstream

/// The persistent table of cached images: a database (`index.sqlite`), and a copy (`index-copy.sqlite`) from which a
/// damaged database is restored.
///
/// A cache hit does not use the index; it reads ``ImageTable``, which is in memory. All methods block on the disk. The
/// index is not `Sendable`, because one owner, ``ImageDiskCache``, uses it.
package final class ImageIndex {
    /// The state in which the database was found at the start.
    package enum Condition: Sendable, Hashable {
        /// The database is intact.
        case whole
        /// There was neither a database nor a usable copy of one.
        case new
        /// The database was damaged, or it was missing and was restored from the copy. A damaged one has been renamed
        /// to `index.sqlite.damaged`. `rows` is the number of rows restored from the copy, and `pins` the number of
        /// pinned ones among them. Both are 0 if there is no usable copy.
        case restored(reason: String, rows: Int, pins: Int)
    }

    /// An opened index and its contents.
    package struct Opened {
        package let index: ImageIndex
        package let condition: Condition
        /// All entries.
        let table: ImageTable
    }

    let database: IndexDatabase
    private let files: any DirectoryFiles
    let copy: IndexCopy
    private(set) var unsavedChanges = Unsaved()
    /// Whether the file that ``keepReserve()`` allocates exists.
    private var hasReserve = false

    /// The size of the reserve, which removals and unpinning use if the disk is full. The cache removes up to 48 rows
    /// at once (``CatalogWriter/removalSlice``), which writes at most two pages of 4 KiB per row, plus their parent pages.
    private static let reserveBytes = 640 << 10
    private static let reserve = "reserve"
    /// An index of at most this disk space is copied at the stop, which takes less than a second.
    private static let maxBytesToCopyAtStop = 16 << 20

    /// Changes that the copy does not contain yet.
    struct Unsaved: Sendable, Hashable {
        /// Whether rows were added, replaced or removed.
        var hasRows = false
        /// Whether pins changed, a pinned image was stored or removed, or a client requested the removal of an image.
        /// Such changes are copied within a minute. Also true at the start if the copy is missing or may be incomplete.
        var hasPins = false
    }

    private init(_ database: IndexDatabase, _ store: BlobStore) {
        (self.database, files, copy) = (database, store.files, IndexCopy(store))
        // If the previous process was killed, the copy may lack changes of that process.
        if store.isUnclean || copy.time == nil || access(store.path + "/" + IndexFormat.copyMark, F_OK) == 0 {
            noteChange(ofPins: true)
        }
    }

    /// Opens the index of a store. Restores a damaged or missing index from its copy.
    ///
    /// - Parameters:
    ///   - store: the store, which has locked the directory
    ///   - now: the time in seconds since 1970 from which restored rows count as stale
    /// - Throws: ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``, ``ImageError/Code/cacheFull``
    package static func open(in store: BlobStore, now: Int = ImageClock.system.now) throws(ImageError) -> Opened {
        try createFile(store)
        var (version, reason) = (0, String?.none)
        do throws(SQLiteError) {
            version = try IndexDatabase.version(path: path(store))
        } catch {
            guard error.isDamage else { throw error.asImageError }
            reason = error.message
        }
        guard version <= IndexDatabase.version else { throw IndexFormat.newer(IndexFormat.index, version, store.path) }
        var condition = Condition.new
        let isSupported = [IndexDatabase.version, IndexMigration.version].contains(version)
        if version != 0, !isSupported { reason = "its version number is damaged" }
        if access(store.path + "/" + IndexFormat.damageMark, F_OK) == 0 {
            reason = reason ?? "damage was found while it was in use"
        }
        if isSupported, reason == nil {
            do throws(SQLiteError) {
                return try opened(store, .whole)
            } catch {
                guard error.isDamage else { throw error.asImageError }
                reason = error.message
            }
        }
        if reason != nil { try setAside(store) }
        // Restore before any tables are created, so that the next start tries again if the process is killed here.
        if let restored = try IndexCopy(store).restore(now: now) {
            condition = .restored(reason: reason ?? "the index was missing", rows: restored.rows, pins: restored.pins)
        } else if let reason {
            condition = .restored(reason: reason, rows: 0, pins: 0)
        }
        try createFile(store)
        do throws(SQLiteError) {
            return try opened(store, condition)
        } catch {
            guard error.isDamage else { throw error.asImageError }
            condition = .restored(reason: error.message, rows: 0, pins: 0)
        }
        // The database was treated as new, because it has no version number. But it is not empty, so it is damaged.
        try setAside(store)
        try createFile(store)
        do throws(SQLiteError) { return try opened(store, condition) } catch { throw error.asImageError }
    }

    private static func opened(_ store: BlobStore, _ condition: Condition) throws(SQLiteError) -> Opened {
        let database = try IndexDatabase(path: path(store))
        let table = try database.load { store.accounts.isInterrupted }
        _ = try? store.files.remove(IndexFormat.damageMark)
        return Opened(index: ImageIndex(database, store), condition: condition, table: table)
    }

    private static func path(_ store: BlobStore) -> String { store.path + "/" + IndexFormat.index }

    /// Creates the database with mode 0600, because URLs may contain secrets. SQLite gives its other files the same
    /// mode.
    private static func createFile(_ store: BlobStore) throws(ImageError) {
        guard access(path(store), F_OK) != 0 else { return }
        do throws(FileError) { _ = try store.files.create(IndexFormat.index) } catch { throw error.asImageError }
    }

    /// Adds rows, or replaces rows with the same keys, in one transaction.
    package func put(_ rows: [ImageRow]) throws(ImageError) {
        try use { database throws(SQLiteError) in try database.put(rows) }
        noteChange(ofPins: rows.contains(where: \.isPinned))
    }

    /// Deletes rows in one transaction. Uses the reserve if the disk is full. The caller then releases the blobs of the
    /// rows.
    ///
    /// - Parameter hasPins: whether one of the images is pinned or a client requested the removal. The index is then
    ///   copied within a minute
    package func remove(_ keys: [ImageKey], hasPins: Bool = false) throws(ImageError) {
        try use { database throws(SQLiteError) in
            try spendingReserve { () throws(SQLiteError) in try database.remove(keys) }
        }
        noteChange(ofPins: hasPins)
    }

    /// Allocates the reserve, unless the disk is already full. Deleting rows writes to the disk before it frees
    /// anything, so without the reserve a full disk could never be emptied.
    func keepReserve() {
        if !hasReserve { hasReserve = (try? files.allocate(Self.reserve, Self.reserveBytes)) != nil }
    }

    /// Runs a change that frees disk space. If the disk is full, removes the reserve and retries.
    private func spendingReserve(_ change: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        do throws(SQLiteError) {
            try change()
        } catch {
            guard error.mayBeFullDisk, releaseReserve() else { throw error }
            try change()
        }
    }

    /// Removes the reserve. Returns false if it did not exist.
    private func releaseReserve() -> Bool {
        hasReserve = false
        return (try? files.remove(Self.reserve)) ?? false
    }

    /// The disk space in bytes of the database, its log, its copy, a damaged database that was set aside, and the
    /// reserve. Reads only metadata of the files, so any thread may call it.
    static func diskBytes(_ files: any DirectoryFiles) -> Int {
        let names = ["", "-wal"].flatMap { [IndexFormat.index + $0, IndexFormat.copy + $0] }
        return (names + [IndexFormat.index + ".damaged", reserve]).reduce(0) { sum, name in
            sum + ((try? files.allocatedBytes(name)) ?? 0)
        }
    }

    /// Returns free pages to the file system if they are more than half of the database.
    func compact() throws(ImageError) {
        try use { database throws(SQLiteError) in try database.compact() }
    }

    /// Writes to the database without changing its contents.
    /// - Throws: the error of a change that cannot be written
    func tryWriting() throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) { try database.rewriteVersion() } catch { throw error.asImageError }
        }
    }

    /// Records when images were last used. The times need not be exact: they only determine the order of eviction after
    /// a restart.
    package func touch(_ uses: [(key: ImageKey, time: Int)]) throws(ImageError) {
        try use { database throws(SQLiteError) in try database.touch(uses) }
    }

    /// Pins or unpins an image. Ignores an unknown key.
    package func pin(_ key: ImageKey, _ isPinned: Bool) throws(ImageError) {
        try use { database throws(SQLiteError) in
            guard var row = try database.row(key)?.row else { return }
            row.isPinned = isPinned
            // Unpinning must work on a full disk, because administrators do it to free disk space.
            if isPinned {
                try database.put([row])
            } else {
                try spendingReserve { () throws(SQLiteError) in try database.put([row]) }
            }
        }
        noteChange(ofPins: true)
    }

    /// The row of an image; nil if it does not exist or is damaged.
    package func row(_ key: ImageKey) throws(ImageError) -> ImageRow? {
        try use { database throws(SQLiteError) in try database.row(key)?.row }
    }

    /// Up to `limit` rows in the order of their keys. Damaged rows are omitted.
    ///
    /// - Parameters:
    ///   - key: the last key of the previous page; nil for the first page
    ///   - limit: the maximum number of rows
    package func rows(after key: ImageKey?, limit: Int) throws(ImageError) -> [ImageRow] {
        try use { database throws(SQLiteError) in try database.rows(after: key, limit: limit).compactMap(\.row) }
    }

    /// The keys of images that were fetched with certain credentials.
    ///
    /// - Parameter isIncluded: whether to include the credential of this name
    func keys(ofCredentials isIncluded: (String) -> Bool) throws(ImageError) -> [ImageKey] {
        try use { database throws(SQLiteError) in
            var keys: [ImageKey] = []
            var answers: [String: Bool] = [:]
            try database.restricted { key, text in
                guard let name = ImageRow.credential(text) else { return }
                let answer = answers[name] ?? isIncluded(name)
                answers[name] = answer
                if answer { keys.append(key) }
            }
            return keys
        }
    }

    // MARK: The copy

    /// Begins a copy, and abandons one that is in progress.
    ///
    /// - Returns: the changes since the previous copy
    func beginCopy() throws(ImageError) -> Unsaved {
        try use { database throws(ImageError) in
            database.abandonCopy()
            try copy.begin()
            defer { unsavedChanges = Unsaved() }
            return unsavedChanges
        }
    }

    /// Copies the next pages. Returns whether the copy is complete; ``IndexCopy/publish()`` then replaces the previous one.
    func continueCopy(pages: Int) throws(ImageError) -> Bool {
        try use { database throws(SQLiteError) in try database.copy(to: copy.newPath, pages: pages) }
    }

    /// Abandons a copy that failed.
    ///
    /// - Parameter changes: the result of ``beginCopy()``
    func abandonCopy(_ changes: Unsaved) {
        database.abandonCopy()
        copy.discard()
        unsavedChanges.hasRows = unsavedChanges.hasRows || changes.hasRows
        unsavedChanges.hasPins = unsavedChanges.hasPins || changes.hasPins
    }

    /// Whether the index is small enough to be copied at the stop of the agent.
    var isCopiedAtStop: Bool { ((try? files.allocatedBytes(IndexFormat.index)) ?? 0) <= Self.maxBytesToCopyAtStop }

    /// Leaves the copy of the last changes to the next start.
    func deferCopy() { _ = try? files.create(IndexFormat.copyMark) }

    private func noteChange(ofPins hasPins: Bool) {
        unsavedChanges.hasRows = true
        if hasPins { unsavedChanges.hasPins = true }
    }

    /// Runs `body` with the database. Marks the index as damaged if `body` finds damage.
    private func use<T, Failure: ImageErrorConvertible>(
        _ body: (IndexDatabase) throws(Failure) -> T
    ) throws(ImageError) -> T {
        do throws(Failure) {
            return try body(database)
        } catch {
            let error = error.asImageError
            if error.code == .indexDamaged { _ = try? files.create(IndexFormat.damageMark) }
            throw error
        }
    }

    /// Renames a damaged database, so that the damage can be examined.
    private static func setAside(_ store: BlobStore) throws(ImageError) {
        let path = path(store)
        for suffix in ["-wal", "-shm"] { _ = uninterrupted { unlink(path + suffix) } }
        guard uninterrupted({ rename(path, path + ".damaged") }) == 0 || errno == ENOENT else {
            throw FileError("set aside", IndexFormat.index, errno: errno).asImageError
        }
    }
}

/// The files of the index, and the check of their version.
enum IndexFormat {
    static let index = "index.sqlite"
    static let copy = "index-copy.sqlite"
    /// The file that marks an index in which damage was found during use. Without the mark the next start could miss
    /// the damage, because a start reads only one of the two tables.
    static let damageMark = "index-damaged"
    /// The file that marks an index whose last changes are not in its copy, because a copy at the stop takes too long.
    static let copyMark = "index-copy-due"

    /// Checks that the index and its copy are regular files and were not written by a newer agent. Changes nothing.
    ///
    /// - Throws: ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``
    static func refuseNewer(in directory: String) throws(ImageError) {
        for name in [index, copy] {
            guard let version = try version(ofFile: directory + "/" + name), version > IndexDatabase.version else {
                continue
            }
            throw newer(name, version, directory)
        }
    }

    static func newer(_ name: String, _ version: Int, _ directory: String) -> ImageError {
        ImageError(
            .newerIndex,
            "\"\(directory)/\(name)\" has format \(version), and this agent reads format \(IndexDatabase.version) or older; install the newer agent again, or set cache.directory to another directory"
        )
    }

    /// The version in the header of an SQLite database (sqlite.org/fileformat2.html, section 1.3.12). Nil if the file
    /// does not exist, is shorter than the header, or is not a database.
    private static func version(ofFile path: String) throws(ImageError) -> Int? {
        // O_NONBLOCK, because a FIFO without a writer must not block the start.
        let file = uninterrupted { open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) }
        if file < 0, errno != ELOOP { return nil }
        defer { if file >= 0 { close(file) } }
        var status = stat()
        guard file >= 0, fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw ImageError(.storageFailed, "\"\(path)\" is not a regular file; remove it and restart the agent")
        }
        var header = [UInt8](repeating: 0, count: 64)
        let count = header.withUnsafeMutableBytes { bytes in
            uninterrupted { pread(file, bytes.baseAddress, bytes.count, 0) }
        }
        guard count == header.count, header.starts(with: "SQLite format 3\0".utf8) else { return nil }
        return header[60..<64].reduce(0) { $0 << 8 | Int($1) }
    }
}
