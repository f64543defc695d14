internal import CSQLite
import Glibc

/// An error of SQLite.
struct SQLiteError: ImageErrorConvertible, Sendable, Hashable, CustomStringConvertible {
    /// The primary result code.
    let code: CInt
    /// SQLite's error message.
    let message: String

    /// Whether the file is damaged or not a database, so that a retry is pointless.
    var isDamage: Bool { code == SQLITE_CORRUPT || code == SQLITE_NOTADB }

    /// Whether a statement is invalid for this database, for example because it names a column that does not exist.
    var isInvalidStatement: Bool { code == SQLITE_ERROR }

    /// Whether a full disk may be the cause. SQLite does not always report a full disk as `SQLITE_FULL`.
    var mayBeFullDisk: Bool { code == SQLITE_FULL || code == SQLITE_IOERR }

    var description: String { "\(message) (SQLite error \(code))" }

    /// The error as an ``ImageError``, whose message is written for users of the cache.
    var asImageError: ImageError {
        if code == SQLITE_FULL {
            return ImageError(.cacheFull, "the disk of the cache is full (index: \(message)); free some space")
        }
        if isDamage {
            return ImageError(
                .indexDamaged,
                "the index of the cache is damaged (\(message)); restart the agent, which restores it from its copy"
            )
        }
        return ImageError(
            .storageFailed, "cannot use the index of the cache: \(self); check its directory and the kernel log")
    }
}

/// A connection to a database. It must be used by one thread at a time; callers that share it need a lock.
final class SQLiteDatabase {
    fileprivate let handle: OpaquePointer

    /// Opens a database, and creates an empty one if it does not exist. Rejects a file that is a symbolic link, but the
    /// path of its directory may contain symbolic links.
    init(path: String) throws(SQLiteError) {
        var handle: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW
        let result = sqlite3_open_v2(Self.resolvingDirectory(of: path), &handle, flags, nil)
        guard let handle, result == SQLITE_OK else {
            let message = handle.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close_v2(handle)
            throw SQLiteError(code: result & 0xFF, message: message)
        }
        self.handle = handle
        _ = larder_sqlite_be_defensive(handle)
    }

    deinit { sqlite3_close_v2(handle) }

    /// The path with all symbolic links in its directory resolved, because SQLITE_OPEN_NOFOLLOW rejects links there
    /// too.
    private static func resolvingDirectory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), let directory = realpath(String(path[...slash]), nil) else {
            return path
        }
        defer { free(directory) }
        return String(cString: directory) + path[slash...]
    }

    /// Runs statements that return no rows.
    func run(_ sql: String) throws(SQLiteError) {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure }
    }

    /// Prepares a statement for repeated use.
    func prepare(_ sql: String) throws(SQLiteError) -> SQLiteStatement { try SQLiteStatement(self, sql) }

    /// Runs `body` in a transaction.
    func transaction(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        try run("BEGIN IMMEDIATE")
        do throws(SQLiteError) {
            try body()
            try run("COMMIT")
        } catch {
            // Some errors roll the transaction back automatically.
            if sqlite3_get_autocommit(handle) == 0 { try? run("ROLLBACK") }
            throw error
        }
    }

    fileprivate var failure: SQLiteError {
        SQLiteError(code: sqlite3_errcode(handle) & 0xFF, message: String(cString: sqlite3_errmsg(handle)))
    }
}

/// An unfinished copy of a database, made a few pages at a time (sqlite.org/backup.html). One thread may use the copy
/// and its source at a time. Writes on the source connection before the copy is complete are included.
final class SQLiteBackup {
    private let source: SQLiteDatabase
    private let copy: SQLiteDatabase
    private let handle: OpaquePointer

    init(of source: SQLiteDatabase, path: String) throws(SQLiteError) {
        self.source = source
        copy = try SQLiteDatabase(path: path)
        // No journal is needed: the caller flushes a complete copy to disk before using it, and never uses an
        // incomplete copy.
        try copy.run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        guard let handle = sqlite3_backup_init(copy.handle, "main", source.handle, "main") else { throw copy.failure }
        self.handle = handle
    }

    deinit { sqlite3_backup_finish(handle) }

    /// Copies up to `pages` pages. Returns whether the copy is complete.
    func step(_ pages: Int) throws(SQLiteError) -> Bool {
        switch sqlite3_backup_step(handle, CInt(clamping: pages)) {
        case SQLITE_OK: return false
        case SQLITE_DONE: return true
        case let result:
            throw SQLiteError(code: result & 0xFF, message: String(cString: sqlite3_errstr(result)))
        }
    }
}

final class SQLiteStatement {
    /// The value of a parameter of the SQL statement.
    enum Value: Sendable, Hashable {
        case null
        case integer(Int)
        case text(String)
        case blob([UInt8])
    }

    private let database: SQLiteDatabase
    private let handle: OpaquePointer

    fileprivate init(_ database: SQLiteDatabase, _ sql: String) throws(SQLiteError) {
        var handle: OpaquePointer?
        let result = sqlite3_prepare_v3(database.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
        guard result == SQLITE_OK, let handle else { throw database.failure }
        self.database = database
        self.handle = handle
    }

    deinit { sqlite3_finalize(handle) }

    /// Executes the statement.
    ///
    /// - Parameters:
    ///   - values: the parameters, in order
    ///   - body: called for each row; reads the columns from the statement
    func run(
        _ values: [Value] = [], _ body: (SQLiteStatement) throws(SQLiteError) -> Void = { _ in }
    ) throws(SQLiteError) {
        defer {
            // sqlite3_reset returns the error of the last step, which has already been thrown.
            sqlite3_reset(handle)
            sqlite3_clear_bindings(handle)
        }
        for (offset, value) in values.enumerated() { try bind(value, at: CInt(offset + 1)) }
        while true {
            switch sqlite3_step(handle) {
            case SQLITE_ROW: try body(self)
            case SQLITE_DONE: return
            default: throw database.failure
            }
        }
    }

    private func bind(_ value: Value, at index: CInt) throws(SQLiteError) {
        let result =
            switch value {
            case .null: sqlite3_bind_null(handle, index)
            case .integer(let number): sqlite3_bind_int64(handle, index, Int64(number))
            case .text(let text): larder_sqlite_bind_text(handle, index, text, CInt(text.utf8.count))
            // An empty array may have a null address, which SQLite would store as NULL.
            case .blob(let bytes):
                bytes.isEmpty
                    ? sqlite3_bind_zeroblob(handle, index, 0)
                    : larder_sqlite_bind_blob(handle, index, bytes, CInt(bytes.count))
            }
        guard result == SQLITE_OK else { throw database.failure }
    }

    /// The integer in a column of the current row. SQLite converts values of other types; NULL becomes 0.
    func integer(_ column: CInt) -> Int { Int(sqlite3_column_int64(handle, column)) }

    /// The integer in a column of the current row; nil if the value is NULL.
    func optionalInteger(_ column: CInt) -> Int? {
        sqlite3_column_type(handle, column) == SQLITE_NULL ? nil : integer(column)
    }

    /// The text in a column of the current row; empty if the value is NULL. The text may contain null characters.
    func text(_ column: CInt) -> String { withBlob(column) { String(decoding: $0, as: UTF8.self) } }

    /// Calls `body` with the bytes of a column, which are valid until the next row.
    func withBlob<T>(_ column: CInt, _ body: (UnsafeRawBufferPointer) -> T) -> T {
        let start = sqlite3_column_blob(handle, column)
        return body(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }
}
