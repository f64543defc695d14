internal import LarderEncoding
internal import LarderHTTPSemantics
internal import LarderUpstream

/// Migrates a database of version 3 in place, in one transaction.
///
/// Version 3 does not record whether `url` sent the response of a row, because a 304 of another URL may have updated
/// it. Migrated rows therefore have no validator, and are fetched unconditionally once they are stale. Version 3 does
/// not record how long the redirects to `url` may be used either, so an image is stale if its URL may be a redirect. Its
/// key text has no path if the request had a cache key, and otherwise contains the URL as the client wrote it, and not as
/// it is requested. An agent of version 3 requested the path `/` if the percent-encoded bytes of a path are not UTF-8, so
/// such an image is stale, too.
struct IndexMigration {
    /// The version that is migrated.
    static let version = 3

    private let database: SQLiteDatabase

    init(_ database: SQLiteDatabase) { self.database = database }

    func run() throws(SQLiteError) {
        try database.transaction { () throws(SQLiteError) in
            try database.run(
                """
                ALTER TABLE detail ADD COLUMN sender INTEGER;
                ALTER TABLE detail ADD COLUMN redirect_end INTEGER;
                PRAGMA user_version = \(IndexDatabase.version);
                """)
            let rows = try IndexRows(database)
            let oneRow = try database.prepare(IndexRows.query + "WHERE e.key = ?")
            for key in try changingKeys() {
                var found: IndexRows.Found?
                try oneRow.run([.blob(key.bytes)]) { row in found = IndexRows.read(row, key) }
                guard let row = found?.row, let migrated = Self.migrated(row) else { continue }
                var other: ImageRow?
                if migrated.key != key {
                    try oneRow.run([.blob(migrated.key.bytes)]) { row in
                        other = IndexRows.read(row, migrated.key).row
                    }
                }
                try rows.remove(key)
                try rows.put(other.map { Self.merged(migrated, $0) } ?? migrated)
            }
        }
        // ``IndexFormat`` reads the version from the header of the file.
        try database.run("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// The keys of the rows whose key text is not the URL that sent the image, or may not be the URL as it is requested
    /// (see `FetchURL`). They are collected before the rows change.
    private func changingKeys() throws(SQLiteError) -> [ImageKey] {
        var keys: [ImageKey] = []
        // The key text begins with the name of the credential, which ends with a line feed.
        let others = """
            WHERE substr(d.key_text, instr(d.key_text, char(10)) + 1) <> d.url
            OR d.url GLOB '*[^!$&-;=?-Z_a-z~]*' OR d.url GLOB '*/.*'
            """
        try database.prepare(IndexRows.query + others).run { row throws(SQLiteError) in
            keys.append(try IndexRows.key(of: row))
        }
        return keys
    }

    /// The new version of a row; nil to keep the row.
    private static func migrated(_ row: ImageRow) -> ImageRow? {
        // The key text may differ from the URL only in the letter case of its host, for example.
        let (url, cacheKey) = row.lookup
        let address = try? FetchURL(parsing: row.url)
        let lookup = try? FetchURL(parsing: url)
        let isOfOtherPath = address?.path.hasEscapesOutsideUTF8 ?? false
        if cacheKey == nil, address == lookup, !isOfOtherPath, lookup == nil || lookup?.text == url { return nil }
        var row = row
        let isSameOrigin = address?.origin == lookup?.origin
        if let cacheKey {
            // After a redirect to another origin, the path of the request is unknown. The image stays, with its pin,
            // and no request for an image at another path finds it.
            let path = isSameOrigin ? address?.path : nil
            row.keyText = "\(row.credential ?? "")\n\(url)\(path ?? "/")\n\(cacheKey)"
        } else if let lookup {
            row.keyText = "\(row.credential ?? "")\n\(lookup.text)"
            // The URL is only written in another way.
            if address == lookup, !isOfOtherPath { return row }
        }
        // An image from a client stays fresh, because its origin may not exist.
        if !isSameOrigin || !isFromClient(row.response) { row.response.redirectEnd = row.response.responseTime }
        return row
    }

    /// The row to keep of two rows whose URLs are requested in the same way: the newer one, pinned if one of them is.
    private static func merged(_ one: ImageRow, _ other: ImageRow) -> ImageRow {
        var kept = one.response.responseTime > other.response.responseTime ? one : other
        kept.isPinned = one.isPinned || other.isPinned
        return kept
    }

    /// Whether a response has the only field of a response that a client stored (`image.put`).
    private static func isFromClient(_ response: StoredResponse) -> Bool {
        response.fields.lines.map(\.name) == ["cache-control"] && response.requestTime == response.responseTime
    }
}

extension Substring {
    /// Whether the text contains percent-encoded bytes that are not UTF-8.
    fileprivate var hasEscapesOutsideUTF8: Bool {
        utf8.contains(UInt8(ascii: "%")) && String(validating: percentDecoded().bytes, as: UTF8.self) == nil
    }
}
