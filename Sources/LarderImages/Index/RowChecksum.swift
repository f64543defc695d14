internal import LarderEncoding
internal import LarderHTTPSemantics
internal import LarderImageFormats

/// A checksum that shows whether a row of the index is as it was written (FNV-1a, 64 bits). The change of any one byte changes
/// it. It detects accidents, not forgery.
struct RowChecksum {
    private var hash = FNV1a()

    /// Covers what a start reads of an image, without its last use: that is updated alone, and a wrong time only changes the
    /// order of eviction.
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

    /// Covers everything else: the texts and the numbers as the database has them.
    static func of(texts: [String], numbers: [Int?]) -> Int {
        var checksum = RowChecksum()
        for text in texts { checksum.add(text) }
        for number in numbers { checksum.add(number ?? -1) }
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
