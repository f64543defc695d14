internal import LarderEncoding
internal import LarderHTTPSemantics
internal import LarderImageFormats

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
