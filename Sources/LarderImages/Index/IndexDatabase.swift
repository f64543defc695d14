internal import LarderHTTPSemantics
internal import LarderImageFormats

/// The database of the index. It has two tables with one row per image each: `entry`, which is read completely at the
/// start, and `detail`, which is not read at the start. One thread uses the database at a time.
///
/// SQLite has no checksums, so a corrupted byte inside a value changes the value unnoticed. Each row therefore has a
/// ``RowChecksum``.
final class IndexDatabase {
    /// The version of the tables and of the directory layout, stored as SQLite's `user_version`. Version 3 is migrated
    /// when it is opened; see ``IndexMigration``. Older versions were never published. A change of the format requires a
    /// new version, a migration, and a test that reads a cache of the old version.
    static let version = 4

    /// Whether the tables were created by this instance.
    let isNew: Bool
    let database: SQLiteDatabase
    private let rows: IndexRows
    private let touchEntry, allEntries, oneRow, someRows, restrictedKeys: SQLiteStatement
    /// The copy in progress.
    private var backup: SQLiteBackup?

    /// Opens the database, and creates the tables if it is empty.
    ///
    /// - Throws: ``SQLiteError``. A database with other tables counts as damaged (``SQLiteError/isDamage``), because
    ///   table definitions can be corrupted like any other data.
    convenience init(path: String) throws(SQLiteError) {
        do throws(SQLiteError) {
            try self.init(opening: path)
        } catch {
            throw error.isInvalidStatement ? .damage(error.message) : error
        }
    }

    private init(opening path: String) throws(SQLiteError) {
        database = try SQLiteDatabase(path: path)
        // The lock on the directory ensures that no other process opens the database. In exclusive mode SQLite keeps
        // the index of its log in memory instead of in a mapped file. Access to a mapped file on a full disk ends the
        // process with SIGBUS if file system blocks are smaller than memory pages.
        try database.run("PRAGMA locking_mode = EXCLUSIVE")
        // Commits do not wait for the disk. After a power failure the last commits may be missing, but the database is
        // consistent.
        try database.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF")
        isNew = try Self.prepareTables(database)
        // ``IndexFormat`` reads the version from the header of the file, so move the version from the log to the file.
        if isNew { try database.run("PRAGMA wal_checkpoint(TRUNCATE)") }
        rows = try IndexRows(database)
        touchEntry = try database.prepare("UPDATE entry SET last_use = ?2 WHERE key = ?1 AND last_use < ?2")
        allEntries = try database.prepare("SELECT * FROM entry")
        oneRow = try database.prepare(IndexRows.query + "WHERE e.key = ?")
        // Key texts without a credential begin with a line feed; see CacheLocation.keyText. Others begin with "http".
        restrictedKeys = try database.prepare("SELECT key, key_text FROM detail WHERE key_text >= 'h'")
        someRows = try database.prepare(IndexRows.query + "WHERE e.key > ? ORDER BY e.key LIMIT ?")
    }

    /// Creates the tables. Returns false if they existed.
    private static func prepareTables(_ database: SQLiteDatabase) throws(SQLiteError) -> Bool {
        let found = try storedVersion(database)
        if found == version { return false }
        if found == IndexMigration.version {
            try IndexMigration(database).run()
            return false
        }
        guard found == 0 else {
            throw SQLiteError.damage("the index has version \(found), but this agent supports version \(version)")
        }
        try database.transaction { () throws(SQLiteError) in
            try database.run(
                """
                CREATE TABLE entry (key BLOB PRIMARY KEY, digest BLOB NOT NULL, size INTEGER NOT NULL,
                    freshness BLOB NOT NULL, last_use INTEGER NOT NULL, pinned INTEGER NOT NULL,
                    variant INTEGER NOT NULL, type TEXT NOT NULL, width INTEGER NOT NULL,
                    height INTEGER NOT NULL, proof INTEGER NOT NULL) STRICT, WITHOUT ROWID;
                CREATE TABLE detail (key BLOB PRIMARY KEY, key_text TEXT NOT NULL, url TEXT NOT NULL,
                    frames INTEGER, orientation INTEGER, status INTEGER NOT NULL, fields TEXT NOT NULL, request TEXT NOT NULL,
                    request_time INTEGER NOT NULL, response_time INTEGER NOT NULL, stale_since INTEGER,
                    animated INTEGER, alpha INTEGER, proof INTEGER NOT NULL, sender INTEGER,
                    redirect_end INTEGER) STRICT, WITHOUT ROWID;
                CREATE INDEX restricted ON detail (key_text) WHERE key_text >= 'h';
                PRAGMA user_version = \(version);
                """)
        }
        return true
    }

    /// The version of a database; 0 if it has no tables. When this method closes the database, SQLite moves the
    /// contents of the write-ahead log into the file.
    static func version(path: String) throws(SQLiteError) -> Int {
        let database = try SQLiteDatabase(path: path)
        try database.run("PRAGMA locking_mode = EXCLUSIVE")
        return try storedVersion(database)
    }

    private static func storedVersion(_ database: SQLiteDatabase) throws(SQLiteError) -> Int {
        var found = 0
        try database.prepare("PRAGMA user_version").run { found = $0.integer(0) }
        return found
    }

    /// Writes the version again, to find out whether the database can be written.
    func rewriteVersion() throws(SQLiteError) { try database.run("PRAGMA user_version = \(Self.version)") }

    /// Copies the next pages, at most `pages`, to the file at `path`. The first call begins the copy. Rows that are
    /// written between two calls are copied too.
    ///
    /// - Returns: whether the copy is complete. If it is, the next call begins another copy.
    func copy(to path: String, pages: Int) throws(SQLiteError) -> Bool {
        do throws(SQLiteError) {
            if backup == nil { backup = try SQLiteBackup(of: database, path: path) }
            guard try backup?.step(pages) == true else { return false }
        } catch {
            backup = nil
            throw error
        }
        backup = nil
        return true
    }

    func abandonCopy() { backup = nil }

    /// Moves the contents of the write-ahead log into the database file.
    func checkpoint() throws(SQLiteError) { try database.run("PRAGMA wal_checkpoint(TRUNCATE)") }

    /// Rewrites the database without its free pages, if they are more than half of it and no copy is in progress.
    func compact() throws(SQLiteError) {
        guard backup == nil else { return }
        var (pages, free) = (0, 0)
        try database.prepare("PRAGMA page_count").run { pages = $0.integer(0) }
        try database.prepare("PRAGMA freelist_count").run { free = $0.integer(0) }
        guard free > pages / 2 else { return }
        try database.run("VACUUM")
        try checkpoint()
    }

    /// All entries, in the order of their keys.
    ///
    /// - Parameter isInterrupted: called now and then. If it returns true, this method throws
    func load(isInterrupted: () -> Bool) throws(SQLiteError) -> ImageTable {
        var table = ImageTable()
        _ = try forEachEntry(isInterrupted: isInterrupted) { _ = table.put($0) }
        return table
    }

    /// Calls `body` with each entry, in the order of the keys.
    ///
    /// - Parameter isInterrupted: called now and then. If it returns true, this method throws
    /// - Returns: the number of entries
    func forEachEntry(isInterrupted: () -> Bool, _ body: (ImageEntry) -> Void = { _ in }) throws(SQLiteError) -> Int {
        var count = 0
        try allEntries.run { row throws(SQLiteError) in
            if count.isMultiple(of: 1024), isInterrupted() { throw .interrupted }
            guard let key = row.withBlob(0, { ImageKey($0) }), let digest = row.withBlob(1, { BlobDigest($0) }),
                let freshness = row.withBlob(3, { ResponseFreshness($0) }), let type = ImageType(rawValue: row.text(7))
            else { throw SQLiteError.damage("the index has an invalid row") }
            let entry = ImageEntry(
                key: key, digest: digest, size: row.integer(2), freshness: freshness, lastUse: row.integer(4),
                isPinned: row.integer(5) != 0, variant: UInt64(bitPattern: Int64(row.integer(6))),
                type: type, width: row.integer(8), height: row.integer(9))
            guard row.integer(10) == RowChecksum.of(entry) else {
                throw SQLiteError.damage("the index has a row with a wrong checksum")
            }
            body(entry)
            count += 1
        }
        return count
    }

    func put(_ rows: [ImageRow]) throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in
            for row in rows { try self.rows.put(row) }
        }
    }

    func remove(_ keys: [ImageKey]) throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in
            for key in keys { try rows.remove(key) }
        }
    }

    func touch(_ uses: [(key: ImageKey, time: Int)]) throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in
            for use in uses { try touchEntry.run([.blob(use.key.bytes), .integer(use.time)]) }
        }
    }

    func row(_ key: ImageKey) throws(SQLiteError) -> IndexRows.Found? {
        var result: IndexRows.Found?
        try oneRow.run([.blob(key.bytes)]) { row throws(SQLiteError) in result = IndexRows.read(row, key) }
        return result
    }

    /// Calls `each` with the key and key text of every image that was fetched with a credential.
    func restricted(_ each: (ImageKey, String) -> Void) throws(SQLiteError) {
        try restrictedKeys.run { row throws(SQLiteError) in
            guard let key = row.withBlob(0, { ImageKey($0) }) else {
                throw SQLiteError.damage("the index has an invalid row")
            }
            each(key, row.text(1))
        }
    }

    func rows(after key: ImageKey?, limit: Int) throws(SQLiteError) -> [IndexRows.Found] {
        var result: [IndexRows.Found] = []
        try someRows.run([.blob(key?.bytes ?? []), .integer(limit)]) { row throws(SQLiteError) in
            result.append(IndexRows.read(row, try IndexRows.key(of: row)))
        }
        return result
    }
}

extension SQLiteError {
    /// An error for a database that is not an image index, or is damaged. 11 is `SQLITE_CORRUPT`.
    static func damage(_ message: String) -> SQLiteError { SQLiteError(code: 11, message: message) }

    /// The error for work that ends because the agent stops. 9 is `SQLITE_INTERRUPT`.
    static var interrupted: SQLiteError { SQLiteError(code: 9, message: "interrupted by the stop of the agent") }
}
