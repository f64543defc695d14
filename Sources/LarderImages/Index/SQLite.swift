internal import CSQLite
import Glibc

/// What SQLite says went wrong.
struct SQLiteError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The primary result code.
    let code: CInt
    /// SQLite's words.
    let message: String

    /// Whether the file is damaged or no database, so that trying again is of no use.
    var isDamage: Bool { code == SQLITE_CORRUPT || code == SQLITE_NOTADB }

    /// Whether a statement does not fit to what is there: a column that it names does not exist.
    var saysTheStatementIsWrong: Bool { code == SQLITE_ERROR }

    /// Whether a full disk may be the reason; some places where it shows have no code of their own.
    var mayBeFullDisk: Bool { code == SQLITE_FULL || code == SQLITE_IOERR }

    var description: String { "\(message) (SQLite error \(code))" }

    /// As an error for people.
    var asImageError: ImageError {
        if code == SQLITE_FULL {
            return ImageError(.noRoom, "the disk of the cache is full (its index says: \(message)); free some of it")
        }
        if isDamage {
            return ImageError(
                .indexDamaged,
                "the index of the cache is damaged (\(message)); restart the agent, which restores it from its copy"
            )
        }
        return ImageError(
            .storageFailed, "the index of the cache cannot be used: \(self); check its directory and the kernel's log")
    }
}

/// A connection to a database. One thread uses it at a time; whoever shares it brings a lock.
final class SQLiteDatabase {
    fileprivate let handle: OpaquePointer

    /// Opens a database, or makes an empty one. A file that is a symbolic link is refused; its directory may be reached
    /// through one.
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

    /// The path without symbolic links in its directory, of which SQLITE_OPEN_NOFOLLOW would refuse every one.
    private static func resolvingDirectory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), let directory = realpath(String(path[...slash]), nil) else {
            return path
        }
        defer { free(directory) }
        return String(cString: directory) + path[slash...]
    }

    /// Runs statements that give no rows.
    func run(_ sql: String) throws(SQLiteError) {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure }
    }

    /// Prepares a statement that is used many times.
    func prepare(_ sql: String) throws(SQLiteError) -> SQLiteStatement { try SQLiteStatement(self, sql) }

    /// Runs a body as one change: all of it happens, or nothing.
    func transaction(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        try run("BEGIN IMMEDIATE")
        do throws(SQLiteError) {
            try body()
            try run("COMMIT")
        } catch {
            // Some errors end the transaction themselves; then there is nothing to take back.
            if sqlite3_get_autocommit(handle) == 0 { try? run("ROLLBACK") }
            throw error
        }
    }

    fileprivate var failure: SQLiteError {
        SQLiteError(code: sqlite3_errcode(handle) & 0xFF, message: String(cString: sqlite3_errmsg(handle)))
    }
}

/// A copy of a database that is being made, some pages at a time (sqlite.org/backup.html). It is used as its source is, by
/// one thread at a time. Writes on the source connection during the copy are included.
final class SQLiteBackup {
    private let source: SQLiteDatabase
    private let copy: SQLiteDatabase
    private let handle: OpaquePointer

    init(of source: SQLiteDatabase, path: String) throws(SQLiteError) {
        self.source = source
        copy = try SQLiteDatabase(path: path)
        // The caller makes it durable when it is complete; a part of one is never used.
        try copy.run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        guard let handle = sqlite3_backup_init(copy.handle, "main", source.handle, "main") else { throw copy.failure }
        self.handle = handle
    }

    deinit { sqlite3_backup_finish(handle) }

    /// Copies some pages; whether these were the last.
    func step(_ pages: Int) throws(SQLiteError) -> Bool {
        switch sqlite3_backup_step(handle, CInt(clamping: pages)) {
        case SQLITE_OK: return false
        case SQLITE_DONE: return true
        case let result:
            throw SQLiteError(code: result & 0xFF, message: String(cString: sqlite3_errstr(result)))
        }
    }
}

/// A prepared statement.
final class SQLiteStatement {
    /// What a parameter or a column can be.
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

    /// Runs it to its end.
    ///
    /// - Parameters:
    ///   - values: its parameters, in order
    ///   - body: is called for each row, and reads its columns from the statement
    func run(
        _ values: [Value] = [], _ body: (SQLiteStatement) throws(SQLiteError) -> Void = { _ in }
    ) throws(SQLiteError) {
        defer {
            // What it returns is the error of the last step, which was thrown already.
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
            // An empty array may have no address, which would be NULL.
            case .blob(let bytes):
                bytes.isEmpty
                    ? sqlite3_bind_zeroblob(handle, index, 0)
                    : larder_sqlite_bind_blob(handle, index, bytes, CInt(bytes.count))
            }
        guard result == SQLITE_OK else { throw database.failure }
    }

    /// A column of the current row; 0 where it is no number.
    func integer(_ column: CInt) -> Int { Int(sqlite3_column_int64(handle, column)) }

    /// A column of the current row, or nothing where it is NULL.
    func optionalInteger(_ column: CInt) -> Int? {
        sqlite3_column_type(handle, column) == SQLITE_NULL ? nil : integer(column)
    }

    /// A column of the current row; empty where it is NULL. It may have a 0 in it.
    func text(_ column: CInt) -> String { withBlob(column) { String(decoding: $0, as: UTF8.self) } }

    /// A column of the current row, good until the next row.
    func withBlob<T>(_ column: CInt, _ body: (UnsafeRawBufferPointer) -> T) -> T {
        let start = sqlite3_column_blob(handle, column)
        return body(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
    }
}
