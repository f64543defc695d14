/// The system's SQLite (sqlite.org/c3ref), and what of it Swift cannot import.
#pragma once

#include <sqlite3.h>

/// sqlite3_bind_text with SQLITE_TRANSIENT, a cast pointer that Swift does not see: SQLite makes its own copy.
static inline int larder_sqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, int length) {
    return sqlite3_bind_text(statement, index, text, length, SQLITE_TRANSIENT);
}

/// sqlite3_bind_blob with SQLITE_TRANSIENT.
static inline int larder_sqlite_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int length) {
    return sqlite3_bind_blob(statement, index, bytes, length, SQLITE_TRANSIENT);
}

/// sqlite3_db_config for SQLITE_DBCONFIG_DEFENSIVE, which is variadic: nothing can write to the database's own tables.
static inline int larder_sqlite_be_defensive(sqlite3 *database) {
    return sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
}
