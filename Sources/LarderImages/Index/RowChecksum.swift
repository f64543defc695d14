internal import LarderEncoding
internal import LarderHTTPSemantics
internal import LarderImageFormats

/// A number that says whether a row of the index is as it was written (FNV-1a, 64 bits): the change of any one byte gives
/// another one, and it costs a start next to nothing. It is against accidents, not against people.
struct RowChecksum {
    private var hash = FNV1a()

    /// What the start reads of an image. When it was used last is left out: that is changed alone, and a wrong time only
    /// moves the image in the order of eviction.
    static func of(_ entry: ImageEntry) -> Int {
        var proof = RowChecksum()
        proof.add(entry.key.bytes)
        proof.add(entry.digest.bytes)
        proof.add(entry.size)
        proof.add(entry.freshness.bytes)
        proof.add(entry.isPinned ? 1 : 0)
        proof.add(Int(bitPattern: UInt(entry.variant)))
        proof.add(entry.type.rawValue)
        proof.add(entry.width)
        proof.add(entry.height)
        return Int(bitPattern: UInt(proof.hash.value))
    }

    /// Everything else that is known of it: the texts and the numbers as the database has them.
    static func of(texts: [String], numbers: [Int?]) -> Int {
        var proof = RowChecksum()
        for text in texts { proof.add(text) }
        for number in numbers { proof.add(number ?? -1) }
        return Int(bitPattern: UInt(proof.hash.value))
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
