public import JSON

/// Writes a snapshot as one file that can be searched without being parsed.
public struct SnapshotFileWriter {
    private typealias Layout = SnapshotFileLayout

    private struct Entry {
        var hash: PathHash
        var parent: Int
        var name: Range<Int>
        var text: Range<Int>
        var kind: JSONValue.Kind
    }

    private var entries: [Entry] = []
    private var names: [UInt8] = []
    private var text: [UInt8] = []

    private init() {}

    /// The bytes of the file.
    ///
    /// - Parameters:
    ///   - value: the whole configuration
    ///   - revision: its revision
    ///   - epoch: the epoch of that revision, the number that its hexadecimal text means
    ///   - seed: what the hashes of paths begin with; by chance, so that nobody can choose names that collide
    /// - Throws: `tooLarge`
    public static func bytes(
        of value: JSONValue, revision: Int, epoch: UInt64, seed: UInt64 = .random(in: .min ... .max)
    ) throws(SnapshotFileError) -> [UInt8] {
        var writer = SnapshotFileWriter()
        writer.entries.append(
            Entry(hash: PathHash(seed: seed), parent: 0, name: 0..<0, text: 0..<0, kind: value.kind))
        writer.add(value, entry: 0)
        return try writer.file(revision: revision, epoch: epoch, seed: seed)
    }

    /// Writes the text of a value whose entry is there already, and its members with theirs. Arrays are text as a whole: what
    /// is in them is found by reading it. The nesting of a document is limited, and so is this recursion.
    private mutating func add(_ value: JSONValue, entry: Int) {
        let start = text.count
        if value.kind == .object {
            text.append(UInt8(ascii: "{"))
            var isFirst = true
            for (name, member) in value.members {
                if !isFirst { text.append(UInt8(ascii: ",")) }
                isFirst = false
                addName(name)
                add(name, member, to: entry)
            }
            text.append(UInt8(ascii: "}"))
        } else {
            text.append(contentsOf: value.compactBytes)
        }
        entries[entry].text = start..<text.count
    }

    private mutating func add(_ name: String, _ member: JSONValue, to parent: Int) {
        var hash = entries[parent].hash
        hash.add(Layout.separator)
        let nameStart = names.count
        for byte in name.utf8 {
            hash.add(byte)
            names.append(byte)
        }
        entries.append(
            Entry(hash: hash, parent: parent, name: nameStart..<names.count, text: 0..<0, kind: member.kind))
        add(member, entry: entries.count - 1)
    }

    private mutating func addName(_ name: String) {
        var writer = JSONWriter()
        writer.string(name)
        text.append(contentsOf: writer.bytes)
        text.append(UInt8(ascii: ":"))
    }

    // MARK: The file

    private func file(revision: Int, epoch: UInt64, seed: UInt64) throws(SnapshotFileError) -> [UInt8] {
        // At most three quarters of the slots are taken.
        var slotCount = 4
        while slotCount * 3 < entries.count * 4 { slotCount *= 2 }
        let entryOffset = Layout.headerBytes
        let slotOffset = entryOffset + entries.count * Layout.entryBytes
        let nameOffset = Layout.aligned(slotOffset + slotCount * 4)
        let textOffset = Layout.aligned(nameOffset + names.count)
        let total = Layout.aligned(textOffset + text.count)
        guard total <= Layout.maximumBytes else {
            throw SnapshotFileError(
                .tooLarge, "the snapshot needs \(total) bytes, and a snapshot file has 4 GiB at most")
        }
        var file = [UInt8](repeating: 0, count: total)
        file.withUnsafeMutableBytes { file in
            file.copyBytes(from: Layout.magic)
            func put<T: FixedWidthInteger>(_ value: T, _ offset: Int) {
                file.storeBytes(of: value.littleEndian, toByteOffset: offset, as: T.self)
            }
            put(UInt32(Layout.headerBytes), Layout.Header.headerBytes)
            put(seed, Layout.Header.seed)
            put(UInt64(total), Layout.Header.fileBytes)
            put(UInt64(clamping: revision), Layout.Header.revision)
            put(epoch, Layout.Header.epoch)
            put(UInt32(entryOffset), Layout.Header.entryOffset)
            put(UInt32(entries.count), Layout.Header.entryCount)
            put(UInt32(slotOffset), Layout.Header.slotOffset)
            put(UInt32(slotCount), Layout.Header.slotCount)
            put(UInt32(nameOffset), Layout.Header.nameOffset)
            put(UInt32(names.count), Layout.Header.nameBytes)
            put(UInt32(textOffset), Layout.Header.textOffset)
            put(UInt32(text.count), Layout.Header.textBytes)
            for (number, entry) in entries.enumerated() {
                let start = entryOffset + number * Layout.entryBytes
                put(entry.hash.value, start + Layout.Entry.hash)
                put(UInt32(entry.parent), start + Layout.Entry.parent)
                put(UInt32(entry.name.lowerBound), start + Layout.Entry.nameOffset)
                put(UInt32(entry.name.count), start + Layout.Entry.nameBytes)
                put(UInt32(entry.text.lowerBound), start + Layout.Entry.textOffset)
                put(UInt32(entry.text.count), start + Layout.Entry.textBytes)
                put(UInt32(entry.kind.rawValue), start + Layout.Entry.kind)
                var slot = PathHash.slot(entry.hash.value, of: slotCount)
                while file.loadUnaligned(fromByteOffset: slotOffset + slot * 4, as: UInt32.self) != 0 {
                    slot = (slot + 1) & (slotCount - 1)
                }
                put(UInt32(number + 1), slotOffset + slot * 4)
            }
            names.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: file[nameOffset...]).copyMemory(from: $0) }
            text.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: file[textOffset...]).copyMemory(from: $0) }
        }
        return file
    }
}
