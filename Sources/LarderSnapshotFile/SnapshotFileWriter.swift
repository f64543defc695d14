package import LarderJSON

/// Writes a snapshot as a file that can be searched without parsing.
///
/// The writer traverses the document twice: once to count the entries, and once to write them directly into the file.
/// Therefore it needs memory only for the document, the file and, if the document is not compact, a compact copy. A
/// separate index of a 10 MB document with short members would take several times 10 MB.
package struct SnapshotFileWriter {
    private typealias Layout = SnapshotFileLayout

    private let value: JSONValue
    private let revision: Int
    private let epoch: UInt64
    private let seed: UInt64
    private let entryCount: Int
    private let slotCount: Int
    private let nameBytes: Int
    private let textBytes: Int
    /// The length of the file in bytes.
    let byteCount: Int

    /// Counts the entries and bytes that the file needs.
    private init(_ value: JSONValue, revision: Int, epoch: UInt64, seed: UInt64) throws(SnapshotFileError) {
        // The file contains a copy of the document's text, which therefore must be compact and without duplicate
        // members.
        self.value = value.isCompact ? value : value.detached()
        (self.revision, self.epoch, self.seed) = (revision, epoch, seed)
        var (entries, names) = (1, 0)
        Self.count(self.value, &entries, &names)
        // At most three quarters of the slots are used.
        var slots = 4
        while slots * 3 < entries * 4 { slots *= 2 }
        (entryCount, slotCount, nameBytes) = (entries, slots, names)
        textBytes = self.value.withTextBytes { $0.count }
        let nameOffset = Layout.aligned(Layout.headerBytes + entries * Layout.entryBytes + slots * 4)
        byteCount = Layout.aligned(Layout.aligned(nameOffset + names) + textBytes)
        guard byteCount <= Layout.maximumBytes else {
            throw SnapshotFileError(
                .tooLarge, "the snapshot needs \(byteCount) bytes, more than the 4 GiB of a snapshot file")
        }
    }

    /// Returns the bytes of the file.
    ///
    /// - Parameters:
    ///   - value: the whole document
    ///   - revision: the revision of the snapshot
    ///   - epoch: the epoch of the revision, as a number
    ///   - seed: the start value of the path hashes. It is random so that an attacker cannot choose colliding names.
    /// - Throws: `tooLarge`
    package static func bytes(
        of value: JSONValue, revision: Int, epoch: UInt64, seed: UInt64 = .random(in: .min ... .max)
    ) throws(SnapshotFileError) -> [UInt8] {
        let writer = try SnapshotFileWriter(value, revision: revision, epoch: epoch, seed: seed)
        var bytes = [UInt8](repeating: 0, count: writer.byteCount)
        bytes.withUnsafeMutableBytes { writer.write(to: $0) }
        return bytes
    }

    /// Writes a sealed file. This takes time proportional to the size of the document, some milliseconds per megabyte.
    ///
    /// - Parameters:
    ///   - value: the whole document
    ///   - revision: the revision of the snapshot
    ///   - epoch: the epoch of the revision, 16 hexadecimal digits
    ///   - name: the name of the file shown in /proc
    /// - Throws: `tooLarge`, `systemFailed`
    package static func file(
        of value: JSONValue, revision: Int, epoch: String, name: String
    ) throws(SnapshotFileError) -> SealedFile {
        let writer = try SnapshotFileWriter(
            value, revision: revision, epoch: UInt64(epoch, radix: 16) ?? 0, seed: .random(in: .min ... .max))
        return try SealedFile(byteCount: writer.byteCount, name: name) { writer.write(to: $0) }
    }

    /// Counts the entries and the bytes of names below an object. Recursion is bounded by the nesting limit of
    /// documents.
    private static func count(_ value: JSONValue, _ entries: inout Int, _ names: inout Int) {
        guard value.kind == .object else { return }
        for (name, member) in value.members {
            entries += 1
            names += name.utf8.count
            count(member, &entries, &names)
        }
    }

    /// Writes the file into zeroed memory of exactly its length.
    private func write(to file: UnsafeMutableRawBufferPointer) {
        value.withTextBytes { text in
            guard let textStart = text.baseAddress else { return }
            var pass = Pass(self, file, textStart)
            pass.putHeader()
            UnsafeMutableRawBufferPointer(rebasing: file[pass.textOffset...]).copyMemory(from: text)
            pass.putEntry(hash: PathHash(seed: seed), parent: 0, name: 0..<0, value)
            pass.putMembers(of: value, entry: 0, hash: PathHash(seed: seed))
        }
    }

    /// The second traversal of the document. Writes the header, entries, slots and names.
    private struct Pass {
        private let plan: SnapshotFileWriter
        private let file: UnsafeMutableRawBufferPointer
        /// The start of the document's text, which contains the text of every value.
        private let textStart: UnsafeRawPointer
        private let slotOffset: Int
        private let nameOffset: Int
        let textOffset: Int
        private var entries = 0
        private var names = 0

        init(_ plan: SnapshotFileWriter, _ file: UnsafeMutableRawBufferPointer, _ textStart: UnsafeRawPointer) {
            (self.plan, self.file, self.textStart) = (plan, file, textStart)
            slotOffset = Layout.headerBytes + plan.entryCount * Layout.entryBytes
            nameOffset = Layout.aligned(slotOffset + plan.slotCount * 4)
            textOffset = Layout.aligned(nameOffset + plan.nameBytes)
        }

        func putHeader() {
            file.copyBytes(from: Layout.magic)
            put(UInt32(Layout.headerBytes), Layout.Header.headerBytes)
            put(plan.seed, Layout.Header.seed)
            put(UInt64(plan.byteCount), Layout.Header.fileBytes)
            put(UInt64(clamping: plan.revision), Layout.Header.revision)
            put(plan.epoch, Layout.Header.epoch)
            put(UInt32(Layout.headerBytes), Layout.Header.entryOffset)
            put(UInt32(plan.entryCount), Layout.Header.entryCount)
            put(UInt32(slotOffset), Layout.Header.slotOffset)
            put(UInt32(plan.slotCount), Layout.Header.slotCount)
            put(UInt32(nameOffset), Layout.Header.nameOffset)
            put(UInt32(plan.nameBytes), Layout.Header.nameBytes)
            put(UInt32(textOffset), Layout.Header.textOffset)
            put(UInt32(plan.textBytes), Layout.Header.textBytes)
        }

        mutating func putMembers(of object: JSONValue, entry: Int, hash: PathHash) {
            guard object.kind == .object else { return }
            for (name, member) in object.members {
                var memberHash = hash
                memberHash.add(Layout.separator)
                let nameStart = names
                for byte in name.utf8 {
                    memberHash.add(byte)
                    file[nameOffset + names] = byte
                    names += 1
                }
                let number = entries
                putEntry(hash: memberHash, parent: entry, name: nameStart..<names, member)
                putMembers(of: member, entry: number, hash: memberHash)
            }
        }

        mutating func putEntry(hash: PathHash, parent: Int, name: Range<Int>, _ value: JSONValue) {
            let start = Layout.headerBytes + entries * Layout.entryBytes
            put(hash.value, start + Layout.Entry.hash)
            put(UInt32(parent), start + Layout.Entry.parent)
            put(UInt32(name.lowerBound), start + Layout.Entry.nameOffset)
            put(UInt32(name.count), start + Layout.Entry.nameBytes)
            value.withTextBytes { text in
                let offset = text.baseAddress.map { $0 - textStart } ?? 0
                put(UInt32(offset), start + Layout.Entry.textOffset)
                put(UInt32(text.count), start + Layout.Entry.textBytes)
            }
            put(UInt32(value.kind.rawValue), start + Layout.Entry.kind)
            entries += 1
            var slot = PathHash.slot(hash.value, of: plan.slotCount)
            while file.loadUnaligned(fromByteOffset: slotOffset + slot * 4, as: UInt32.self) != 0 {
                slot = (slot + 1) & (plan.slotCount - 1)
            }
            put(UInt32(entries), slotOffset + slot * 4)
        }

        private func put<Number: FixedWidthInteger>(_ value: Number, _ offset: Int) {
            file.storeBytes(of: value.littleEndian, toByteOffset: offset, as: Number.self)
        }
    }
}
