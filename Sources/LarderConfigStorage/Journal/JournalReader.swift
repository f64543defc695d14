import Glibc

/// The records that are read from a journal at the start of the agent.
///
/// A zero byte follows the last record; see ``JournalRecord``. Any other byte there is part of a write that a crash cut
/// off, which was never acknowledged, or of a damaged record, which may have been acknowledged. The two cannot be
/// distinguished with certainty. In both cases, numbering skips every revision that a lost record may have had.
struct JournalReader: Sendable {
    /// How the journal ends.
    enum Ending: Sendable {
        case clean
        /// No valid end mark follows the last record, and no newer record follows it either.
        case torn
        /// Records are missing although there are intact ones after them, or all records are missing.
        case damaged
    }

    /// The intact records that the generation does not contain, in order.
    var records: [JournalRecord] = []
    /// The offset of the next record.
    var end = 0
    var ending = Ending.clean
    /// An upper bound of the number of missing records.
    var lost = 0
    /// Whether there are records that only another version of this program can read.
    var isOfAnotherVersion = false

    /// The minimum size of a record.
    private static let minRecordBytes = 128
    /// The value of ``lost`` if all records are missing: more records than any journal has.
    private static let allRecords = 1 << 20
    /// At least this many consecutive zeros show that a sector was lost. End marks have fewer.
    private static let minLostZeros = 64

    /// - Parameters:
    ///   - zeros: the number of zeros that follow the bytes in the file
    ///   - sequence: the sequence number of the last record that the generation contains
    init(_ journal: [UInt8], zeros: Int = 0, after sequence: Int) {
        var last: Int?
        var position = 0
        while let (record, next) = Self.record(in: journal, at: position),
            last.map({ $0 + 1 == record.sequence }) ?? true
        {
            last = record.sequence
            take(record, after: sequence)
            position = next
        }
        end = position
        if let first = records.first, first.sequence > sequence + 1 { ending = .damaged }
        resynchronize(journal, from: position, last: last ?? sequence, after: sequence)
        if ending == .clean, journal.isEmpty {
            // Once a record has been written, the file always contains records or remains of them. If it is empty, they
            // were lost.
            if sequence > 0 { (ending, lost) = (.damaged, Self.allRecords) }
            return
        }
        if ending == .clean, Self.isMarked(journal, zeros: zeros, at: position, after: last ?? sequence) { return }
        let written = (journal.lastIndex { $0 != 0 } ?? -1) + 1
        lost = max(0, written - position) / Self.minRecordBytes + 1
        if ending == .clean { ending = .torn }
    }

    /// Whether an end mark follows the last record.
    private static func isMarked(
        _ journal: [UInt8], zeros: Int, at position: Int, after sequence: Int
    ) -> Bool {
        guard position < journal.count else { return zeros > 0 }
        guard journal[position] == 0 else { return false }
        // The bytes after an end mark are older than the mark. They begin with at most the zeros of one or two older
        // end marks, so more zeros show that a sector was lost.
        let next = journal[position...].firstIndex { $0 != 0 } ?? journal.endIndex
        if next < journal.endIndex, next - position >= minLostZeros { return false }
        // A zero that replaces the first byte of a record is damage and not an end mark, if the record is newer than
        // the last intact one.
        guard let lineEnd = journal.lineEnd(from: position),
            let lacking = JournalRecord.sequenceWithoutFirstByte(journal[position..<lineEnd])
        else { return true }
        return lacking <= sequence
    }

    /// Reads the intact records after damage. They begin after a line end, or after zeros, which a disk returns for a
    /// lost sector. Older records, from before the journal last started over, are skipped, because they have lower
    /// sequence numbers. Refused records are skipped, because they have lost their first bytes.
    private mutating func resynchronize(_ journal: [UInt8], from position: Int, last: Int, after sequence: Int) {
        var last = last
        var position = position
        while let lineEnd = journal.lineEnd(from: position) {
            let line = journal[position..<lineEnd]
            position = lineEnd + 1
            let start = line.lastIndex(of: 0).map { $0 + 1 } ?? line.startIndex
            guard let record = JournalRecord(line[start...]) else {
                if let unknown = JournalRecord.sequenceOfAnotherVersion(line[start...]), unknown > last {
                    isOfAnotherVersion = true
                }
                continue
            }
            guard record.sequence > last else { continue }
            last = record.sequence
            take(record, after: sequence)
            end = lineEnd + 1
            ending = .damaged
        }
    }

    private mutating func take(_ record: JournalRecord, after sequence: Int) {
        if record.sequence > sequence { records.append(record) }
    }

    private static func record(in journal: [UInt8], at position: Int) -> (JournalRecord, next: Int)? {
        guard let lineEnd = journal.lineEnd(from: position),
            let record = JournalRecord(journal[position..<lineEnd])
        else { return nil }
        return (record, lineEnd + 1)
    }
}

extension [UInt8] {
    /// The offset of the next LF. The LF is found with memchr(3), which takes a fraction of the time of a loop. This
    /// matters at the start, which reads the journals of all namespaces.
    fileprivate func lineEnd(from start: Int) -> Int? {
        withUnsafeBytes { bytes in
            guard start < bytes.count, let base = bytes.baseAddress else { return nil }
            let found = memchr(base + start, CInt(UInt8(ascii: "\n")), bytes.count - start)
            return found.map { UnsafeRawPointer($0) - base }
        }
    }
}
