internal import LarderPlatform
internal import LarderUpstream
import Glibc
internal import Synchronization

/// Which images are held: a database on disk (`index.sqlite`), and a copy of it (`index-copy.sqlite`), from which it is
/// restored when it is damaged.
///
/// Nothing here is touched by a hit: what that needs is in ``ImageTable``, in memory. All methods wait for the disk.
package final class ImageIndex: Sendable {
    /// How the database was found.
    package enum Condition: Sendable, Hashable {
        /// As it was left.
        case whole
        /// There was none.
        case new
        /// Damaged or missing. A damaged one is `index.sqlite.damaged` now. `rows` were restored from the copy, of which
        /// `pins` are pinned; 0 if there is no usable copy.
        case restored(reason: String, rows: Int, pins: Int)
        /// Of an older version. It is set aside for ``OutdatedImages`` to remove.
        case outdated
    }

    /// An index, and what was in it.
    package struct Opened: Sendable {
        /// The index.
        package let index: ImageIndex
        /// How it was found.
        package let condition: Condition
        /// All its entries, in no order.
        package let entries: [ImageEntry]
    }

    let database: Mutex<IndexDatabase>
    private let files: any CacheFiles
    private let store: BlobStore
    private let unsaved = Mutex(Unsaved())
    /// Whether ``keepReserve()`` has something to give back.
    private let hasReserve = Mutex(false)

    /// Disk space that is kept for removals and unpinning. A removal of 48 rows writes at most two pages of 4 KiB for each, and the pages
    /// that lead to them.
    private static let reserveBytes = 640 << 10
    private static let reserve = "reserve"
    /// A file that marks an index in which damage was found during use. A start reads one of its tables and may miss the damage.
    private static let damageMark = "index-damaged"

    /// What the copy does not have.
    struct Unsaved: Sendable, Hashable {
        /// Whether rows were added, replaced or removed.
        var hasRows = false
        /// Whether pins changed.
        var hasPins = false
    }

    private init(_ database: sending IndexDatabase, _ store: BlobStore) {
        self.database = Mutex(database)
        files = store.files
        self.store = store
        // The changes of a process that was killed may be missing in the copy.
        if store.isUnclean || copyTime == nil { noteChange(ofPins: true) }
    }

    /// Opens the index of a store. A damaged or missing one is restored from its copy, and one of an older version is set
    /// aside.
    ///
    /// - Parameters:
    ///   - store: holds the lock on the directory
    ///   - now: the seconds since 1970, from which restored rows count as stale
    /// - Throws: ``ImageError/Code/newerIndex``, ``ImageError/Code/storageFailed``, ``ImageError/Code/noRoom``
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
        if try OutdatedImages(store).setAside(version: version) {
            condition = .outdated
        } else {
            if version != 0, version != IndexDatabase.version { reason = "its version number is damaged" }
            if hasDamageMark(store) { reason = reason ?? "damage was found while it was in use" }
            if version == IndexDatabase.version, reason == nil {
                do throws(SQLiteError) {
                    return try opened(store, .whole)
                } catch {
                    guard error.isDamage else { throw error.asImageError }
                    reason = error.message
                }
            }
            if reason != nil { try setAside(store) }
            // Before there are tables again: after a kill in between, the next start tries it again.
            if let restored = try IndexCopy(store).restore(now: now) {
                condition = .restored(reason: reason ?? "there was none", rows: restored.rows, pins: restored.pins)
            } else if let reason {
                condition = .restored(reason: reason, rows: 0, pins: 0)
            }
        }
        try createFile(store)
        do throws(SQLiteError) {
            return try opened(store, condition)
        } catch {
            guard error.isDamage else { throw error.asImageError }
            condition = .restored(reason: error.message, rows: 0, pins: 0)
        }
        // Without a version number, and so taken for a new one, but not empty.
        try setAside(store)
        try createFile(store)
        do throws(SQLiteError) { return try opened(store, condition) } catch { throw error.asImageError }
    }

    private static func opened(_ store: BlobStore, _ condition: Condition) throws(SQLiteError) -> Opened {
        let database = try IndexDatabase(path: path(store))
        let entries = try database.load()
        _ = try? store.files.remove(damageMark)
        return Opened(index: ImageIndex(database, store), condition: condition, entries: entries)
    }

    private static func hasDamageMark(_ store: BlobStore) -> Bool {
        access(store.path + "/" + damageMark, F_OK) == 0
    }

    private static func path(_ store: BlobStore) -> String { store.path + "/" + IndexFormat.index }

    /// URLs may be secrets: only the agent reads the database, and what SQLite puts beside it has the same mode.
    private static func createFile(_ store: BlobStore) throws(ImageError) {
        guard access(path(store), F_OK) != 0 else { return }
        do throws(CacheFileError) { _ = try store.files.create(IndexFormat.index) } catch { throw error.asImageError }
    }

    /// Adds rows, or replaces those with the same keys, as one change.
    package func put(_ rows: [ImageRow]) throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) { try database.put(rows) } catch { throw error.asImageError }
        }
        noteChange(ofPins: rows.contains(where: \.isPinned))
    }

    /// Deletes rows, as one change. If the disk is full, the reserve makes room for it. The caller releases their blobs
    /// afterwards.
    ///
    /// - Parameter hasPins: whether pinned images are among them, so that the copy follows within a minute
    package func remove(_ keys: [ImageKey], hasPins: Bool = false) throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                try spendingReserve { () throws(SQLiteError) in try database.remove(keys) }
            } catch {
                throw error.asImageError
            }
        }
        noteChange(ofPins: hasPins)
    }

    /// Keeps some of the disk back, unless it is full already. Even a removal writes before it frees anything, so that a
    /// full disk could not be left without this.
    func keepReserve() {
        hasReserve.withLock { hasReserve in
            if hasReserve { return }
            hasReserve = (try? files.allocate(Self.reserve, Self.reserveBytes)) != nil
        }
    }

    /// Repeats a change that frees disk space, after it released the reserve, if the disk is full.
    private func spendingReserve(_ change: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        do throws(SQLiteError) {
            try change()
        } catch {
            guard error.mayBeFullDisk, giveReserve() else { throw error }
            try change()
        }
    }

    /// Gives back what was kept; no if there was nothing.
    private func giveReserve() -> Bool {
        hasReserve.withLock { hasReserve in
            defer { hasReserve = false }
            return (try? files.remove(Self.reserve)) ?? false
        }
    }

    /// The disk space of the database, its log, its copy and the reserve, in bytes.
    var diskBytes: Int {
        let names = ["", "-wal"].flatMap { [IndexFormat.index + $0, IndexFormat.copy + $0] }
        return (names + [IndexFormat.index + ".damaged", Self.reserve]).reduce(0) { sum, name in
            sum + ((try? files.allocatedBytes(name)) ?? 0)
        }
    }

    /// Gives free pages back to the file system, if they are more than half of the database.
    func compact() throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) { try database.compact() } catch { throw error.asImageError }
        }
    }

    /// Says when images were used last, many at a time. It need not be precise: eviction starts from it after a restart.
    package func touch(_ uses: [(key: ImageKey, time: Int)]) throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) { try database.touch(uses) } catch { throw error.asImageError }
        }
    }

    /// Pins an image or unpins it. An unknown key is no error.
    package func pin(_ key: ImageKey, _ isPinned: Bool) throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                guard var row = try database.row(key)?.row else { return }
                row.isPinned = isPinned
                // An administrator unpins images to free disk space, so a full disk does not prevent it.
                if isPinned {
                    try database.put([row])
                } else {
                    try spendingReserve { () throws(SQLiteError) in try database.put([row]) }
                }
            } catch {
                throw error.asImageError
            }
        }
        noteChange(ofPins: true)
    }

    /// All that is known of an image; nil if its row is damaged.
    package func row(_ key: ImageKey) throws(ImageError) -> ImageRow? {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                return try database.row(key)?.row
            } catch {
                throw error.asImageError
            }
        }
    }

    /// A page of rows in the order of their keys.
    ///
    /// - Parameters:
    ///   - key: the last one of the page before, or nothing for the first page
    ///   - limit: how many at most
    package func rows(after key: ImageKey?, limit: Int) throws(ImageError) -> [ImageRow] {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                return try database.rows(after: key, limit: limit).compactMap(\.row)
            } catch {
                throw error.asImageError
            }
        }
    }

    /// The keys of images that credentials opened, for some of these.
    ///
    /// - Parameter isMeant: is told a credential's name
    func keys(ofCredentials isMeant: (String) -> Bool) throws(ImageError) -> [ImageKey] {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                var keys: [ImageKey] = []
                var answers: [String: Bool] = [:]
                try database.restricted { key, text in
                    guard let name = ImageRow.credential(text) else { return }
                    let answer = answers[name] ?? isMeant(name)
                    answers[name] = answer
                    if answer { keys.append(key) }
                }
                return keys
            } catch {
                throw error.asImageError
            }
        }
    }

    // MARK: The copy

    /// What the copy does not have yet.
    var unsavedChanges: Unsaved { unsaved.withLock { $0 } }

    /// When the copy was written, in seconds since 1970; nil if there is none.
    var copyTime: Int? { IndexCopy(store).time }

    /// Begins a copy, which replaces one that is under way.
    /// - Returns: the changes since the previous copy
    func beginCopy() throws(ImageError) -> Unsaved {
        try use { database throws(ImageError) in
            database.abandonCopy()
            try IndexCopy(store).begin()
            return unsaved.withLock { unsaved in
                defer { unsaved = Unsaved() }
                return unsaved
            }
        }
    }

    /// Copies the next pages; whether these were the last.
    func continueCopy(pages: Int) throws(ImageError) -> Bool {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                return try database.copy(to: IndexCopy(store).newPath, pages: pages)
            } catch {
                throw error.asImageError
            }
        }
    }

    /// Replaces the previous copy by the complete one.
    func publishCopy() throws(ImageError) {
        do throws(ImageError) {
            try IndexCopy(store).publish()
        } catch {
            markDamage(error)
            throw error
        }
    }

    /// Ends a copy that failed.
    ///
    /// - Parameter changes: what ``beginCopy()`` returned
    func abandonCopy(_ changes: Unsaved) {
        database.withLock { $0.abandonCopy() }
        IndexCopy(store).discard()
        unsaved.withLock { unsaved in
            unsaved.hasRows = unsaved.hasRows || changes.hasRows
            unsaved.hasPins = unsaved.hasPins || changes.hasPins
        }
    }

    private func noteChange(ofPins hasPins: Bool) {
        unsaved.withLock { unsaved in
            unsaved.hasRows = true
            if hasPins { unsaved.hasPins = true }
        }
    }

    /// One thread at a time uses the database.
    private func use<T: Sendable>(_ body: (IndexDatabase) throws(ImageError) -> T) throws(ImageError) -> T {
        do throws(ImageError) {
            return try database.withLock { database throws(ImageError) in try body(database) }
        } catch {
            markDamage(error)
            throw error
        }
    }

    private func markDamage(_ error: ImageError) {
        if error.code == .indexDamaged { _ = try? files.create(Self.damageMark) }
    }

    /// Moves a damaged database away, so that its damage can be examined.
    private static func setAside(_ store: BlobStore) throws(ImageError) {
        let path = path(store)
        for suffix in ["-wal", "-shm"] { _ = uninterrupted { unlink(path + suffix) } }
        guard uninterrupted({ rename(path, path + ".damaged") }) == 0 || errno == ENOENT else {
            throw CacheFileError(operation: "set aside", name: IndexFormat.index, errno: errno).asImageError
        }
    }
}
