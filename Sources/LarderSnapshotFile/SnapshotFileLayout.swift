/// The layout of a snapshot file. `Protocol/snapshot-file.md` is the normative specification.
///
/// All numbers are little-endian. The file consists of the header, the entries, the slots, the names and the text, in
/// this order, each aligned to 8 bytes.
enum SnapshotFileLayout {
    /// The signature; the last byte is the version of the format.
    static let magic: [UInt8] = Array("LARDERS\u{1}".utf8)
    static let headerBytes = 96
    static let entryBytes = 32
    /// Precedes each member name in a path key. This byte never occurs in UTF-8 (RFC 3629, section 3).
    static let separator: UInt8 = 0xFF
    /// The maximum size of a file, because offsets have 32 bits.
    static let maximumBytes = Int(UInt32.max)

    /// Offsets in the header.
    enum Header {
        static let headerBytes = 8
        static let seed = 16
        static let fileBytes = 24
        static let revision = 32
        static let epoch = 40
        static let entryOffset = 48
        static let entryCount = 52
        static let slotOffset = 56
        static let slotCount = 60
        static let nameOffset = 64
        static let nameBytes = 68
        static let textOffset = 72
        static let textBytes = 76
    }

    /// Offsets in an entry.
    enum Entry {
        static let hash = 0
        static let parent = 8
        static let nameOffset = 12
        static let nameBytes = 16
        static let textOffset = 20
        static let textBytes = 24
        static let kind = 28
    }

    static func aligned(_ offset: Int) -> Int { (offset + 7) & ~7 }
}

/// The 64-bit FNV-1a hash of a path key, with a seed instead of the offset basis.
struct PathHash {
    private(set) var value: UInt64

    init(seed: UInt64) { value = seed }

    @inline(__always)
    mutating func add(_ byte: UInt8) {
        value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
    }

    @inline(__always)
    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return }
        for offset in 0..<bytes.count { add(start.load(fromByteOffset: offset, as: UInt8.self)) }
    }

    /// The slot where the search for a hash starts. The high 32 bits are combined with the low ones, because the low
    /// bits of FNV-1a alone are less evenly distributed.
    @inline(__always)
    static func slot(_ hash: UInt64, of slotCount: Int) -> Int {
        Int(truncatingIfNeeded: hash ^ (hash >> 32)) & (slotCount - 1)
    }
}
