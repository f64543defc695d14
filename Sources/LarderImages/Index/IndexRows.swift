internal import LarderEncoding
internal import LarderHTTPSemantics
internal import LarderImageFormats

/// Reads and writes rows of the index. Each row is divided between the tables `entry` and `detail`.
struct IndexRows {
    private let putEntry, putDetail, removeEntry, removeDetail: SQLiteStatement

    init(_ database: SQLiteDatabase) throws(SQLiteError) {
        putEntry = try database.prepare("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        putDetail = try database.prepare(
            "INSERT OR REPLACE INTO detail VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        removeEntry = try database.prepare("DELETE FROM entry WHERE key = ?")
        removeDetail = try database.prepare("DELETE FROM detail WHERE key = ?")
    }

    func put(_ row: ImageRow) throws(SQLiteError) {
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
        // Whether `url` sent the response.
        let sender: Int? = row.response.url == nil ? nil : 1
        func value(_ number: Int?) -> SQLiteStatement.Value { number.map { .integer($0) } ?? .null }
        try putDetail.run([
            .blob(entry.key.bytes), .text(row.keyText), .text(row.url), value(row.header.frameCount),
            value(row.header.orientation), .integer(row.response.status), .text(fields), .text(request),
            .integer(row.response.requestTime), .integer(row.response.responseTime), value(row.response.staleSince),
            value(animated), value(alpha),
            .integer(
                RowChecksum.of(
                    texts: [row.keyText, row.url, fields, request],
                    numbers: [
                        row.header.frameCount, row.header.orientation, row.response.status,
                        row.response.requestTime, row.response.responseTime, row.response.staleSince,
                        animated, alpha,
                    ],
                    added: [sender, row.response.redirectEnd])),
            value(sender), value(row.response.redirectEnd),
        ])
    }

    func remove(_ key: ImageKey) throws(SQLiteError) {
        try removeEntry.run([.blob(key.bytes)])
        try removeDetail.run([.blob(key.bytes)])
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

    /// The start of a query whose results ``read(_:_:)`` and ``key(of:)`` decode.
    static let query =
        "SELECT e.digest, e.size, e.last_use, e.pinned, e.variant, e.type, e.width, e.height, d.* FROM entry e JOIN detail d USING (key) "

    /// The key of a result of ``query``.
    static func key(of row: SQLiteStatement) throws(SQLiteError) -> ImageKey {
        guard let key = row.withBlob(8, { ImageKey($0) }) else {
            throw SQLiteError.damage("the index has an invalid row")
        }
        return key
    }

    /// Decodes a result of ``query``.
    static func read(_ row: SQLiteStatement, _ key: ImageKey) -> Found {
        let proof = RowChecksum.of(
            texts: [9, 10, 14, 15].map(row.text),
            numbers: [11, 12, 13, 16, 17, 18, 19, 20].map(row.optionalInteger),
            added: [22, 23].map(row.optionalInteger))
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
            status: row.integer(13), fields: fields, url: row.optionalInteger(22).map { _ in row.text(10) },
            variant: variant, requestTime: row.integer(16), responseTime: row.integer(17),
            redirectEnd: row.optionalInteger(23), staleSince: row.optionalInteger(18))
        let found = ImageRow(
            keyText: row.text(9), url: row.text(10),
            blob: PublishedBlob(digest: digest, size: row.integer(1), header: header), response: response,
            lastUse: row.integer(2), isPinned: row.integer(3) != 0)
        return found.key == key ? .row(found) : .damaged(key)
    }
}

/// A checksum that detects accidental changes in a row of the index (64-bit FNV-1a). If any single byte of the row
/// changes, the checksum differs. It does not protect against forgery.
struct RowChecksum {
    private var hash = FNV1a()

    /// The checksum of the columns in table `entry`, except for the time of last use. That column is updated
    /// separately, and a wrong time affects only the order of eviction.
    static func of(_ entry: ImageEntry) -> Int {
        var checksum = RowChecksum()
        checksum.add(entry.key.bytes)
        checksum.add(entry.digest.bytes)
        checksum.add(entry.size)
        checksum.add(entry.freshness.bytes)
        checksum.add(entry.isPinned ? 1 : 0)
        checksum.add(Int(bitPattern: UInt(entry.variant)))
        checksum.add(entry.type.rawValue)
        checksum.add(entry.width)
        checksum.add(entry.height)
        return Int(bitPattern: UInt(checksum.hash.value))
    }

    /// The checksum of the columns in table `detail`, with texts and numbers as stored.
    ///
    /// - Parameter added: the columns that version 3 does not have. If all are nil, the checksum is that of version 3,
    ///   so that a migration need not write each row
    static func of(texts: [String], numbers: [Int?], added: [Int?]) -> Int {
        var checksum = RowChecksum()
        for text in texts { checksum.add(text) }
        for number in numbers { checksum.add(number ?? -1) }
        if added.contains(where: { $0 != nil }) { for number in added { checksum.add(number ?? -1) } }
        return Int(bitPattern: UInt(checksum.hash.value))
    }

    private mutating func add(_ bytes: [UInt8]) {
        hash.add(bytes)
        add(bytes.count)
    }

    private mutating func add(_ text: String) {
        hash.add(text.utf8)
        add(text.utf8.count)
    }

    private mutating func add(_ number: Int) {
        for shift in stride(from: 0, to: 64, by: 8) { hash.add(UInt8(truncatingIfNeeded: number >> shift)) }
    }
}
