import Glibc

/// Finds values in the bytes of a snapshot file.
///
/// The file is not trusted. The header is checked once; a search checks each offset that it uses. Therefore no file can
/// make a search read out of bounds or run forever. A file with a wrong index yields wrong values, which is no worse
/// than a file with wrong values.
struct SnapshotFileIndex {
    private typealias Layout = SnapshotFileLayout

    /// A value in the file.
    struct Found {
        /// The kind of the value as stored in the file: the raw value of a `JSONValue.Kind`. Not checked, so it can be
        /// any number.
        var kind: UInt32
        /// The range of the value's compact JSON text in the file.
        var text: Range<Int>
    }

    let revision: UInt64
    let epoch: UInt64
    /// The range of the text of the whole document.
    let text: Range<Int>
    /// The seed of the hashes of paths.
    let seed: UInt64
    private let entries: Range<Int>
    private let entryCount: Int
    private let slots: Range<Int>
    private let slotCount: Int
    private let names: Range<Int>

    /// Checks the header.
    /// - Throws: `notASnapshotFile`, `unsupportedVersion`, `damaged`
    init(_ file: UnsafeRawBufferPointer) throws(SnapshotFileError) {
        guard file.count >= Layout.headerBytes, file.prefix(7).elementsEqual(Layout.magic.prefix(7)) else {
            throw SnapshotFileError(.notASnapshotFile, "this is not a snapshot file")
        }
        guard file[7] == Layout.magic[7] else {
            throw SnapshotFileError(
                .unsupportedVersion,
                "this snapshot file has format version \(file[7]), but this program reads version 1; use versions that match"
            )
        }
        func number(_ offset: Int) -> Int { Int(Self.load32(file, offset)) }
        func section(_ offset: Int, _ count: Int, _ stride: Int, _ name: String) throws(SnapshotFileError) -> Range<Int>
        {
            // Neither the product nor the sum can overflow `Int`: the offset and the count come from 32-bit fields, and
            // the stride is at most 32.
            let end = offset + count * stride
            guard offset >= Layout.headerBytes, end <= file.count else {
                throw SnapshotFileError(
                    .damaged, "the snapshot file is damaged: its \(name) extend beyond the end of the file")
            }
            return offset..<end
        }
        guard Self.load64(file, Layout.Header.fileBytes) == UInt64(file.count) else {
            throw SnapshotFileError(
                .damaged, "the snapshot file is damaged: its length differs from the length in its header")
        }
        seed = Self.load64(file, Layout.Header.seed)
        revision = Self.load64(file, Layout.Header.revision)
        epoch = Self.load64(file, Layout.Header.epoch)
        entryCount = number(Layout.Header.entryCount)
        slotCount = number(Layout.Header.slotCount)
        entries = try section(number(Layout.Header.entryOffset), entryCount, Layout.entryBytes, "entries")
        slots = try section(number(Layout.Header.slotOffset), slotCount, 4, "slots")
        names = try section(number(Layout.Header.nameOffset), number(Layout.Header.nameBytes), 1, "names")
        text = try section(number(Layout.Header.textOffset), number(Layout.Header.textBytes), 1, "values")
        guard entryCount > 0, slotCount > 0, slotCount & (slotCount - 1) == 0 else {
            throw SnapshotFileError(.damaged, "the snapshot file is damaged: its index is invalid")
        }
    }

    /// Finds the value of a key whose hash was computed with ``seed``.
    @inline(__always)
    func find(_ key: PathKey, in file: UnsafeRawBufferPointer) -> Found? {
        let hash = key.hash.value
        var slot = PathHash.slot(hash, of: slotCount)
        for _ in 0..<slotCount {
            let entry = Int(Self.load32(file, slots.lowerBound &+ slot &* 4)) - 1
            guard entry >= 0, entry < entryCount else { return nil }
            let start = entries.lowerBound &+ entry &* Layout.entryBytes
            if Self.load64(file, start &+ Layout.Entry.hash) == hash, isNamed(entry, key.bytes, file) {
                return found(start, file)
            }
            slot = (slot &+ 1) & (slotCount &- 1)
        }
        return nil
    }

    /// Returns whether a key is the path of an entry: whether the names in the key equal those of the entry and its
    /// ancestors. Compares the last name first.
    private func isNamed(_ entry: Int, _ key: UnsafeRawBufferPointer, _ file: UnsafeRawBufferPointer) -> Bool {
        var entry = entry
        var end = key.count
        // Each iteration removes at least the separator of one name from the key, so the loop ends.
        while end > 0 {
            if entry == 0 || entry >= entryCount { return false }
            let start = entries.lowerBound + entry * Layout.entryBytes
            let offset = Int(Self.load32(file, start + Layout.Entry.nameOffset))
            let count = Int(Self.load32(file, start + Layout.Entry.nameBytes))
            guard offset + count <= names.count, count < end, key[end - count - 1] == Layout.separator,
                let name = file.baseAddress, let wanted = key.baseAddress,
                memcmp(name + names.lowerBound + offset, wanted + (end - count), count) == 0
            else { return false }
            end -= count + 1
            entry = Int(Self.load32(file, start + Layout.Entry.parent))
        }
        return entry == 0
    }

    private func found(_ start: Int, _ file: UnsafeRawBufferPointer) -> Found? {
        let offset = Int(Self.load32(file, start + Layout.Entry.textOffset))
        let count = Int(Self.load32(file, start + Layout.Entry.textBytes))
        guard count > 0, offset + count <= text.count else { return nil }
        return Found(
            kind: Self.load32(file, start + Layout.Entry.kind),
            text: (text.lowerBound + offset)..<(text.lowerBound + offset + count))
    }

    /// Loads a number from an offset that the caller has checked.
    @inline(__always)
    private static func load32(_ file: UnsafeRawBufferPointer, _ offset: Int) -> UInt32 {
        UInt32(littleEndian: file.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    @inline(__always)
    private static func load64(_ file: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: file.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
}
