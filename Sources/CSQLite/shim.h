/// The system's SQLite (sqlite.org/c3ref), with wrappers for interfaces that Swift cannot import.
#pragma once

#include <sqlite3.h>

/// sqlite3_bind_text with SQLITE_TRANSIENT: SQLite copies the text. Swift cannot import this constant, which is a cast.
static inline int larder_sqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, int length) {
    return sqlite3_bind_text(statement, index, text, length, SQLITE_TRANSIENT);
}

/// sqlite3_bind_blob with SQLITE_TRANSIENT: SQLite copies the bytes.
static inline int larder_sqlite_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int length) {
    return sqlite3_bind_blob(statement, index, bytes, length, SQLITE_TRANSIENT);
}

/// Enables SQLITE_DBCONFIG_DEFENSIVE: no statement can write to SQLite's internal tables. Swift cannot import
/// sqlite3_db_config, which is variadic.
static inline int larder_sqlite_be_defensive(sqlite3 *database) {
    return sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
}
