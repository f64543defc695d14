internal import LarderHTTPSemantics
internal import LarderImageFormats

/// The database of the index. It has two tables with one row per image each: `entry`, which is read completely at the
/// start, and `detail`, which is not read at the start. One thread uses the database at a time.
///
/// SQLite has no checksums, so a corrupted byte inside a value changes the value unnoticed. Each row therefore has a
/// ``RowChecksum``.
final class IndexDatabase {
    /// The version of the tables and of the directory layout, stored as SQLite's `user_version`. Version 2 had a
    /// recovery file per row and two levels of blob directories; see ``OutdatedImages``. A change of the format
    /// requires a new version, a migration, and a test that reads a cache of the old version.
    static let version = 3

    /// Whether the tables were created by this instance.
    let isNew: Bool
    let database: SQLiteDatabase
    private let putEntry, putDetail, removeEntry, removeDetail, touchEntry: SQLiteStatement
    private let allEntries, oneRow, someRows, restrictedKeys: SQLiteStatement
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
        putEntry = try database.prepare("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        putDetail = try database.prepare(
            "INSERT OR REPLACE INTO detail VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        removeEntry = try database.prepare("DELETE FROM entry WHERE key = ?")
        removeDetail = try database.prepare("DELETE FROM detail WHERE key = ?")
        touchEntry = try database.prepare("UPDATE entry SET last_use = ?2 WHERE key = ?1 AND last_use < ?2")
        allEntries = try database.prepare("SELECT * FROM entry")
        let row =
            "SELECT e.digest, e.size, e.last_use, e.pinned, e.variant, e.type, e.width, e.height, d.* FROM entry e JOIN detail d USING (key) "
        oneRow = try database.prepare(row + "WHERE e.key = ?")
        // Key texts without a credential begin with a line feed; see CacheLocation.keyText. Others begin with "http".
        restrictedKeys = try database.prepare("SELECT key, key_text FROM detail WHERE key_text >= 'h'")
        someRows = try database.prepare(row + "WHERE e.key > ? ORDER BY e.key LIMIT ?")
    }

    /// Creates the tables. Returns false if they existed.
    private static func prepareTables(_ database: SQLiteDatabase) throws(SQLiteError) -> Bool {
        let found = try storedVersion(database)
        if found == version { return false }
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
                    animated INTEGER, alpha INTEGER, proof INTEGER NOT NULL) STRICT, WITHOUT ROWID;
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
    func load() throws(SQLiteError) -> [ImageEntry] {
        var entries: [ImageEntry] = []
        try allEntries.run { row throws(SQLiteError) in
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
            entries.append(entry)
        }
        return entries
    }

    func put(_ rows: [ImageRow]) throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in
            for row in rows {
                let entry = row.entry
                try putEntry.run([
                    .blob(entry.key.bytes), .blob(row.digest.bytes), .integer(row.size),
                    .blob(entry.freshness.bytes), .integer(row.lastUse), .integer(row.isPinned ? 1 : 0),
                    .integer(Int(bitPattern: UInt(entry.variant))), .text(row.header.type.rawValue),
                    .integer(row.header.width), .integer(row.header.height), .integer(RowChecksum.of(entry)),
                ])
                let fields = row.response.fields.text
                let request = ResponseFields.text(row.response.variant.requestLines)
                let animated = row.header.isAnimated.map { $0 ? 1 : 0 }
                let alpha = row.header.hasAlpha.map { $0 ? 1 : 0 }
                try putDetail.run([
                    .blob(entry.key.bytes), .text(row.keyText), .text(row.url),
                    row.header.frameCount.map { .integer($0) } ?? .null,
                    row.header.orientation.map { .integer($0) } ?? .null, .integer(row.response.status),
                    .text(fields), .text(request),
                    .integer(row.response.requestTime), .integer(row.response.responseTime),
                    row.response.staleSince.map { .integer($0) } ?? .null,
                    animated.map { .integer($0) } ?? .null, alpha.map { .integer($0) } ?? .null,
                    .integer(
                        RowChecksum.of(
                            texts: [row.keyText, row.url, fields, request],
                            numbers: [
                                row.header.frameCount, row.header.orientation, row.response.status,
                                row.response.requestTime, row.response.responseTime, row.response.staleSince,
                                animated, alpha,
                            ])),
                ])
            }
        }
    }

    func remove(_ keys: [ImageKey]) throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in
            for key in keys {
                try removeEntry.run([.blob(key.bytes)])
                try removeDetail.run([.blob(key.bytes)])
            }
        }
    }

    func touch(_ uses: [(key: ImageKey, time: Int)]) throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in
            for use in uses { try touchEntry.run([.blob(use.key.bytes), .integer(use.time)]) }
        }
    }

    /// A row, or the key of a damaged row.
    enum Found {
        case row(ImageRow)
        case damaged(ImageKey)

        var row: ImageRow? { if case .row(let row) = self { row } else { nil } }

        var key: ImageKey {
            switch self {
            case .row(let row): row.key
            case .damaged(let key): key
            }
        }
    }

    func row(_ key: ImageKey) throws(SQLiteError) -> Found? {
        var result: Found?
        try oneRow.run([.blob(key.bytes)]) { row throws(SQLiteError) in result = Self.row(row, key) }
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

    func rows(after key: ImageKey?, limit: Int) throws(SQLiteError) -> [Found] {
        var result: [Found] = []
        try someRows.run([.blob(key?.bytes ?? []), .integer(limit)]) { row throws(SQLiteError) in
            guard let key = row.withBlob(8, { ImageKey($0) }) else {
                throw SQLiteError.damage("the index has an invalid row")
            }
            result.append(Self.row(row, key))
        }
        return result
    }

    private static func row(_ row: SQLiteStatement, _ key: ImageKey) -> Found {
        let proof = RowChecksum.of(
            texts: [9, 10, 14, 15].map(row.text),
            numbers: [11, 12, 13, 16, 17, 18, 19, 20].map(row.optionalInteger))
        guard row.integer(21) == proof, let digest = row.withBlob(0, { BlobDigest($0) }),
            let type = ImageType(rawValue: row.text(5))
        else { return .damaged(key) }
        let header = ImageHeader(
            type, width: row.integer(6), height: row.integer(7), frameCount: row.optionalInteger(11),
            orientation: row.optionalInteger(12), isAnimated: row.optionalInteger(19).map { $0 != 0 },
            hasAlpha: row.optionalInteger(20).map { $0 != 0 })
        let fields = ResponseFields(text: row.text(14))
        let variant = Variant(
            vary: fields.joined("vary"), request: ResponseFields.lines(row.text(15)),
            fingerprint: UInt64(bitPattern: Int64(row.integer(4))))
        let response = StoredResponse(
            status: row.integer(13), fields: fields, variant: variant, requestTime: row.integer(16),
            responseTime: row.integer(17), staleSince: row.optionalInteger(18))
        let found = ImageRow(
            keyText: row.text(9), url: row.text(10),
            blob: PublishedBlob(digest: digest, size: row.integer(1), header: header), response: response,
            lastUse: row.integer(2), isPinned: row.integer(3) != 0)
        return found.key == key ? .row(found) : .damaged(key)
    }
}

extension SQLiteError {
    /// An error for a database that is not an image index, or is damaged. 11 is `SQLITE_CORRUPT`.
    static func damage(_ message: String) -> SQLiteError { SQLiteError(code: 11, message: message) }
}
