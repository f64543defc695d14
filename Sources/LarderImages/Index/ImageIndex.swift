internal import LarderUpstream
import Glibc
internal import Synchronization

/// Which images are held: a database on disk (`index.sqlite`), and beside it each row as a small file
/// (`rows/ab/abcd…`, named by its key), from which the database is made again when it is damaged.
///
/// A row's file is written before the row and removed after it: after a kill there may be a file without a row, which
/// ``sweep(_:)`` removes, but no row without its file. The files are not fsynced: one that is lost or torn, which
/// its checksum shows, only matters if the database is damaged too.
///
/// Nothing here is touched by a hit: what that needs is in ``ImageTable``, in memory. All methods wait for the disk.
public final class ImageIndex: Sendable {
    /// How the database was found.
    public enum Condition: Sendable, Hashable {
        /// As it was left.
        case whole
        /// There was none.
        case new
        /// Damaged, or of another version: it is `index.sqlite.damaged` now, and so many rows were read from their files.
        case rebuilt(reason: String, rows: Int)
    }

    /// An index, and what was in it.
    public struct Opened: Sendable {
        /// The index.
        public let index: ImageIndex
        /// How it was found.
        public let condition: Condition
        /// All its entries, in no order.
        public let entries: [ImageEntry]
    }

    let database: Mutex<IndexDatabase>
    private let files: any CacheFiles
    /// Whether ``keepReserve()`` has something to give back.
    private let hasReserve = Mutex(false)

    /// Part of the disk that nobody else gets: a removal of 64 rows writes two pages for each at most, and what leads to
    /// them.
    private static let reserveBytes = 1 << 20
    private static let reserve = "reserve"

    private init(_ database: sending IndexDatabase, _ files: any CacheFiles) {
        self.database = Mutex(database)
        self.files = files
    }

    /// Opens the index of a store, and makes it again if it has to be.
    ///
    /// - Parameter store: holds the lock on the directory, and knows which files are there
    /// - Throws: ``ImageError/Code/storageFailed``, ``ImageError/Code/noRoom``
    public static func open(in store: BlobStore) throws(ImageError) -> Opened {
        let path = store.path + "/index.sqlite"
        do throws(CacheFileError) {
            _ = try store.files.createDirectory("rows")
            // URLs may be secrets: only we read the database, and what SQLite puts beside it has the same mode.
            if access(path, F_OK) != 0 { _ = try store.files.create("index.sqlite") }
        } catch {
            throw error.asImageError
        }
        var reason = "there was none"
        do throws(SQLiteError) {
            let database = try IndexDatabase(path: path)
            if !database.isNew {
                let entries = try database.load()
                return Opened(index: ImageIndex(database, store.files), condition: .whole, entries: entries)
            }
        } catch {
            guard error.isDamage else { throw error.asImageError }
            reason = error.message
            try setAside(path)
            do throws(CacheFileError) {
                _ = try store.files.create("index.sqlite")
            } catch {
                throw error.asImageError
            }
        }
        do throws(SQLiteError) {
            let index = ImageIndex(try IndexDatabase(path: path), store.files)
            let entries = try index.rebuild(from: store)
            let isNew = entries.isEmpty && reason == "there was none"
            return Opened(
                index: index, condition: isNew ? .new : .rebuilt(reason: reason, rows: entries.count),
                entries: entries)
        } catch {
            throw error.asImageError
        }
    }

    /// Adds rows, or replaces those with the same keys, as one change.
    public func put(_ rows: [ImageRow]) throws(ImageError) {
        try use { database throws(ImageError) in
            for row in rows { try describe(row) }
            do throws(SQLiteError) { try database.put(rows) } catch { throw error.asImageError }
        }
    }

    /// Deletes rows, as one change, at the cost of the reserve where the disk is full. The caller releases their blobs
    /// after it.
    public func remove(_ keys: [ImageKey]) throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                do throws(SQLiteError) {
                    try database.remove(keys)
                } catch {
                    guard error.mayBeFullDisk, giveReserve() else { throw error }
                    try database.remove(keys)
                }
            } catch {
                throw error.asImageError
            }
            // What cannot be removed is for the next sweep: the rows are gone, and that is what was asked.
            for key in keys { _ = try? files.remove(Self.name(key)) }
        }
    }

    /// Keeps some of the disk back, unless it is full already. Even a removal writes before it frees anything, so that a
    /// full disk could not be left without this.
    func keepReserve() {
        hasReserve.withLock { hasReserve in
            if hasReserve { return }
            hasReserve = (try? files.allocate(Self.reserve, Self.reserveBytes)) != nil
        }
    }

    /// Gives back what was kept; no if there was nothing.
    private func giveReserve() -> Bool {
        hasReserve.withLock { hasReserve in
            defer { hasReserve = false }
            return (try? files.remove(Self.reserve)) ?? false
        }
    }

    /// Says when images were used last, many at a time. It need not be precise: eviction starts from it after a restart.
    public func touch(_ uses: [(key: ImageKey, time: Int)]) throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) { try database.touch(uses) } catch { throw error.asImageError }
        }
    }

    /// Pins an image or unpins it. An unknown key is no error.
    public func pin(_ key: ImageKey, _ isPinned: Bool) throws(ImageError) {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                guard var row = try whole(database.row(key), database) else { return }
                row.isPinned = isPinned
                try database.put([row])
                // Its file would only be asked if the database were damaged; then one that is old has to do.
                try? describe(row)
            } catch {
                throw error.asImageError
            }
        }
    }

    /// All that is known of an image.
    public func row(_ key: ImageKey) throws(ImageError) -> ImageRow? {
        try use { database throws(ImageError) in
            do throws(SQLiteError) { return try whole(database.row(key), database) } catch { throw error.asImageError }
        }
    }

    /// A page of rows in the order of their keys.
    ///
    /// - Parameters:
    ///   - key: the last one of the page before, or nothing for the first page
    ///   - limit: how many at most
    public func rows(after key: ImageKey?, limit: Int) throws(ImageError) -> [ImageRow] {
        try use { database throws(ImageError) in
            do throws(SQLiteError) {
                var rows: [ImageRow] = []
                for found in try database.rows(after: key, limit: limit) {
                    if let row = try whole(found, database) { rows.append(row) }
                }
                return rows
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

    /// Removes the files of rows that are not there, in one outer directory out of 256.
    ///
    /// - Parameter step: which, from 0 to 255
    /// - Returns: how many were removed
    public func sweep(_ step: Int) throws(ImageError) -> Int {
        let outer = Self.outer(step)
        var removed = 0
        try use { database throws(ImageError) in
            for name in try list(outer) {
                do throws(SQLiteError) {
                    if let key = ImageKey(hex: name), try database.has(key) { continue }
                } catch {
                    throw error.asImageError
                }
                if (try? files.remove(outer + "/" + name)) == true { removed += 1 }
            }
        }
        return removed
    }

    /// One at a time: rows and their files change together.
    private func use<T: Sendable>(_ body: (IndexDatabase) throws(ImageError) -> T) throws(ImageError) -> T {
        try database.withLock { database throws(ImageError) in try body(database) }
    }

    /// A row of the database, or where that is damaged, what its file says, which is put in its place.
    private func whole(_ found: IndexDatabase.Found?, _ database: IndexDatabase) throws(SQLiteError) -> ImageRow? {
        switch found {
        case nil: return nil
        case .row(let row): return row
        case .damaged(let key):
            guard let row = read(Self.name(key)), row.key == key else { return nil }
            try database.put([row])
            return row
        }
    }

    private func list(_ name: String) throws(ImageError) -> [String] {
        do throws(CacheFileError) { return try files.list(name) } catch { throw error.asImageError }
    }

    // MARK: Rows as files

    private static func name(_ key: ImageKey) -> String {
        let digits = key.description
        return "rows/\(digits.prefix(2))/\(digits)"
    }

    private static func outer(_ step: Int) -> String { "rows/" + (step < 16 ? "0" : "") + String(step, radix: 16) }

    private func describe(_ row: ImageRow) throws(ImageError) {
        let name = Self.name(row.key)
        let outer = String(name.prefix("rows/ab".count))
        // One name will do: only one thread writes, and a leftover is replaced.
        let temporary = outer + "/new"
        do throws(CacheFileError) {
            _ = try files.createDirectory(outer)
            _ = try files.remove(temporary)
            try files.create(temporary).append(RowDescription.bytes(row))
            try files.replace(temporary, as: name)
        } catch {
            throw error.asImageError
        }
    }

    /// Moves a database away, for somebody who wants to know what happened to it.
    private static func setAside(_ path: String) throws(ImageError) {
        for suffix in ["-wal", "-shm"] { _ = uninterrupted { unlink(path + suffix) } }
        guard uninterrupted({ rename(path, path + ".damaged") }) == 0 || errno == ENOENT else {
            throw CacheFileError(operation: "set aside", name: "index.sqlite", errno: errno).asImageError
        }
    }

    /// Reads all rows from their files, as far as the files of their images are there.
    private func rebuild(from store: BlobStore) throws(SQLiteError) -> [ImageEntry] {
        var entries: [ImageEntry] = []
        var rows: [ImageRow] = []
        func write() throws(SQLiteError) {
            try database.withLock { database throws(SQLiteError) in try database.put(rows) }
            entries += rows.map(\.entry)
            rows = []
        }
        for step in 0..<256 {
            let outer = Self.outer(step)
            // What cannot be read is not held; the sweep removes it.
            for name in (try? files.list(outer)) ?? [] {
                guard let row = read(outer + "/" + name), row.key.description == name,
                    (try? store.files.open(BlobStore.name(row.digest))?.size()) == row.size
                else { continue }
                rows.append(row)
            }
            if rows.count >= 500 { try write() }
        }
        try write()
        return entries
    }

    private func read(_ name: String) -> ImageRow? {
        guard let file = try? files.open(name), let size = try? file.size(), size < 1 << 20,
            let bytes = try? file.read(at: 0, count: size)
        else { return nil }
        return RowDescription.row(bytes)
    }
}
